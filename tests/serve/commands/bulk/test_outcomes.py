"""`demur outcomes`: the truth about many predictions, told once."""

import json

import pytest
from uuid_utils.compat import uuid7

from demur.serve.commands.bulk import run as runs
from demur.traffic import log
from demur.traffic.table_file import rows_of
from tests.conftest import entry
from tests.serve.commands.bulk.conftest import count


@pytest.fixture
def ids(database):
    entries = [entry(model="digits") for _ in range(40)]
    with database.transaction() as connection:
        log.append(connection, entries)
    return [str(one.record.id) for one in entries]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(runs, "OUTCOMES_AT_ONCE", 8)


def test_each_row_is_told_or_refused(run, url, database, tmp_path, ids):
    rows = [{"id": one, "label": "3", "source": "lab" if at % 2 else ""} for at, one in enumerate(ids)]
    rows[3]["label"] = "eleven"
    rows[4]["id"] = str(uuid7())
    rows[5]["id"] = "7"
    file = tmp_path / "rows.csv"
    file.write_text("id,label,source\n" + "".join(f"{row['id']},{row['label']},{row['source']}\n" for row in rows))
    out = tmp_path / "out.jsonl"
    ended = run("outcomes", file, "--out", out, "--author", "ada", "--source", "archive")
    assert ended.status == 1
    assert "40 rows: 37 written, 3 refused" in ended.said
    assert "row 4: label: 'eleven' is not a label of 'digits'" in ended.said
    assert "row 5: there is no prediction with the id" in ended.said
    assert "row 6: id: an id such as" in ended.said
    assert count(database, "outcomes") == 37
    with database.transaction() as connection:
        told = connection.execute("select source, author, count(*) from outcomes group by 1, 2 order by 1").fetchall()
    assert [row[:2] for row in told] == [("archive", "ada"), ("lab", "ada")]
    assert [row["error"] is None for _, row in rows_of(out)].count(False) == 3


def test_the_same_file_is_told_once(run, url, database, tmp_path, ids):
    file = tmp_path / "truth.jsonl"
    file.write_text("".join(json.dumps({"prediction": one, "truth": "3"}) + "\n" for one in ids))
    command = ["outcomes", file, "--id-column", "prediction", "--label-column", "truth"]
    for _ in range(2):
        ended = run(*command)
        assert (ended.status, "40 rows: 40 written, 0 refused" in ended.said) == (0, True)
        assert count(database, "outcomes") == 40
    assert [path.name for path in tmp_path.iterdir()] == ["truth.jsonl"]
    assert run(*command, "--run", "again").status == 0
    assert count(database, "outcomes") == 80


def test_it_goes_on_where_it_stopped(run, url, gateway, database, tmp_path, ids):
    file = tmp_path / "truth.jsonl"
    file.write_text("".join(json.dumps({"id": one, "label": "3"}) + "\n" for one in ids))
    gateway.fails_after, gateway.answers_fail = 2, True
    stopped = run("outcomes", file, "--concurrency", 1)
    assert "16 of 40 rows are done, and the same command goes on" in stopped.said
    gateway.fails_after = None
    ended = run("outcomes", file)
    assert "going on behind row 16" in ended.said
    assert ended.status == 0
    assert count(database, "outcomes") == 40


def test_lists_of_labels_and_other_values(run, url, database, tmp_path, ids):
    file = tmp_path / "rows.jsonl"
    labels = [["3"], 3, None, 3.5, "3"]
    file.write_text(
        "".join(json.dumps({"id": one, "label": label}) + "\n" for one, label in zip(ids, labels, strict=False))
    )
    ended = run("outcomes", file)
    assert ended.status == 1
    assert "row 1: label: the multiclass task of 'digits' takes one label" in ended.said
    assert "line 3: 'label' is empty" in ended.said
    assert "line 4: 'label' is neither a text nor a list of texts" in ended.said
    assert count(database, "outcomes") == 2


def test_what_predict_has_written_is_what_outcomes_read(run, url, database, tmp_path, some_digits):
    """With a column of labels beside it, as people add one."""
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"input": row["input"]}) + "\n" for row in some_digits))
    run("predict", file, "--model", "digits", "--out", tmp_path / "out.csv")
    rows = [row for _, row in rows_of(tmp_path / "out.csv")]
    (tmp_path / "told.jsonl").write_text(
        "".join(
            json.dumps({**row, "label": truth["label"]}) + "\n" for row, truth in zip(rows, some_digits, strict=True)
        )
    )
    assert run("outcomes", tmp_path / "told.jsonl").status == 0
    assert count(database, "outcomes") == 50


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--label-column", "truth"],
            "there is no 'truth'; there are: 'id', 'label'; name the one that is meant with --label-",
        ),
        (["--source", "review"], "'review' reads like 'review', which is what reviewers here say"),
        (["--out", "out.txt"], "must end in one of"),
    ],
)
def test_a_wrong_command(run, url, database, tmp_path, ids, words, said):
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"id": ids[0], "label": "3"}) + "\n")
    ended = run("outcomes", file, *words)
    assert ended.status == 1
    assert said in ended.said
    assert count(database, "outcomes") == 0
