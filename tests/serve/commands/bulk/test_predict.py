"""`demur predict`: every row once, whatever stops it, and a result for each."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from demur.serve.commands.bulk import run as runs
from demur.traffic.table_file import rows_of
from tests.serve.commands.bulk.conftest import count

REFUSED = "input: the shape is 1 x 1; this model takes 8 x 8"


def write(path, rows):
    """Rows as a file of the kind that its name says."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows({**row, "input": json.dumps(row["input"])} for row in rows)
    else:
        parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def results(path):
    return [row for _, row in rows_of(path)]


@pytest.fixture
def rows(some_digits):
    return [{"input": row["input"], "group": f"g{at % 3}"} for at, row in enumerate(some_digits)]


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_every_row_has_a_result(run, url, database, tmp_path, rows, name, ending):
    rows[7]["input"] = [[1.0]]
    file = write(tmp_path / name, rows)
    out = tmp_path / f"out{ending}"
    ended = run("predict", file, "--model", "digits", "--out", out, "--batch-size", 8)
    assert ended.status == 1
    assert f"row 8: {REFUSED}" in ended.said
    assert "50 rows: " in ended.said
    assert "1 refused" in ended.said
    told = results(out)
    assert [int(row["row"]) for row in told] == list(range(1, 51))
    assert list(told[0]) == ["row", "id", "action", "prediction", "confidence", "reason", "error"]
    assert (told[7]["error"], told[7]["id"] or None) == (REFUSED, None)
    with database.transaction() as connection:
        found = connection.execute('select id::text, prediction, action, "group" from records').fetchall()
    assert len(found) == 49
    by_id = {id: (prediction, action, group) for id, prediction, action, group in found}
    for at, (row, sent) in enumerate(zip(told, rows, strict=True)):
        if at != 7:
            assert by_id[row["id"]] == (str(row["prediction"]), row["action"], sent["group"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, out.name])


def test_a_second_run_goes_on_where_the_first_stopped(run, url, gateway, database, tmp_path, rows):
    file, out = write(tmp_path / "rows.jsonl", rows), tmp_path / "out.csv"
    command = ["predict", file, "--model", "digits", "--out", out, "--batch-size", 4, "--concurrency", 1]
    gateway.fails_after = 5
    stopped = run(*command)
    assert stopped.status == 1
    assert "too much; 20 of 50 rows are done, and the same command goes on from there" in stopped.said
    assert not out.exists()
    assert count(database) == 20
    gateway.fails_after = None
    before = gateway.requests
    ended = run(*command)
    assert ended.status == 0
    assert "going on behind row 20" in ended.said
    assert gateway.requests - before == 8
    assert [int(row["row"]) for row in results(out)] == list(range(1, 51))
    assert count(database) == 50


def test_what_was_answered_and_not_written_is_not_predicted_again(run, url, gateway, database, tmp_path, rows):
    file, out = write(tmp_path / "rows.jsonl", rows), tmp_path / "out.jsonl"
    command = ["predict", file, "--model", "digits", "--out", out, "--batch-size", 4]
    gateway.fails_after, gateway.answers_fail = 3, True
    assert run(*command, "--concurrency", 1).status == 1  # else the batch that fails may be the first of the file
    assert count(database) > 12
    log = tmp_path / "out.jsonl.unfinished"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:7]) + lines[7][:30])  # stopped in the middle of the seventh row
    gateway.fails_after = None
    assert run(*command).status == 0
    assert count(database) == 50
    assert len({row["id"] for row in results(out)}) == 50


def test_another_file_or_model_does_not_go_on(run, url, gateway, tmp_path, rows):
    file, out = write(tmp_path / "rows.jsonl", rows), tmp_path / "out.jsonl"
    command = ["predict", file, "--out", out, "--batch-size", 4]
    assert "no model 'digit'" in run(*command, "--model", "digit").said
    gateway.fails_after = gateway.requests + 2
    assert "8 of 50 rows are done" in run(*command, "--model", "digits", "--concurrency", 1).said  # begun anew
    gateway.fails_after = None
    write(file, rows[:-1])
    said = run(*command, "--model", "digits").said
    assert "out.jsonl.unfinished was begun with other settings (sha256)" in said
    assert "(sha256, model)" in run(*command, "--model", "digit").said


def test_a_finished_file_is_left_alone(run, url, tmp_path, rows):
    file, out = write(tmp_path / "rows.jsonl", rows[:2]), tmp_path / "out.jsonl"
    assert run("predict", file, "--model", "digits", "--out", out).status == 0
    again = run("predict", file, "--model", "digits", "--out", out)
    assert (again.status, "out.jsonl is there already" in again.said) == (1, True)


def test_a_new_run_asks_again_and_a_named_one_does_not(run, url, database, tmp_path, rows):
    file = write(tmp_path / "rows.jsonl", rows[:5])
    for n, name in enumerate([(), (), ("--run", "march"), ("--run", "march")]):
        assert run("predict", file, "--model", "digits", "--out", tmp_path / f"{n}.jsonl", *name).status == 0
    assert count(database) == 15
    assert (tmp_path / "2.jsonl").read_text() == (tmp_path / "3.jsonl").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "nobody"], "there is no model 'nobody'; there are: digits; 0 of 50 rows are done"),
        (["--model", "nobody"], "says so, and --url or DEMUR_URL names another"),
        (
            ["--model", "digits", "--input-column", "text"],
            "there is no 'text'; there are: 'input', 'group'; name the one that",
        ),
        (["--model", "digits", "--out", "out.txt"], "out.txt: the name must end in one of .jsonl, .csv, .parquet"),
        (
            ["--model", "digits", "--url", "localhost:8000"],
            "'localhost:8000' is no address of a service; write one such as",
        ),
        (["--model", "digits", "--url", "http://127.0.0.1:1"], "no service answers at http://127.0.0.1:1"),
        (["--model", "digits", "--key-env", "NO_KEY"], "the environment variable NO_KEY is not set"),
        (["--model", "digits", "--key-env", "demur_x"], "takes the name of an environment variable, and not the key"),
    ],
)
def test_a_wrong_command_is_one_sentence(run, url, database, tmp_path, rows, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "rows.jsonl", rows)
    ended = run("predict", file, *([] if "--out" in words else ["--out", "out.jsonl"]), *words)
    assert ended.status == 1
    assert said in ended.said
    assert "Traceback" not in ended.said
    assert count(database) == 0


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.csv", None, "there is no such file"),
        ("rows.csv", "input,label\ncafé,b\n".encode("cp1252"), "or set --encoding to cp1252"),
        ("rows.csv", b"PK\x03\x04", "an Excel workbook"),
        ("rows.jsonl", b'{"input": "a"}\n{"input"\n', "line 2: not JSON"),
        ("rows.parquet", b"PAR1", "not a Parquet file"),
        ("rows.xlsx", b"", "must end in one of"),
    ],
)
def test_a_wrong_file_is_one_sentence_before_anything_is_asked(run, url, gateway, tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    ended = run("predict", tmp_path / name, "--model", "digits", "--out", tmp_path / "out.jsonl")
    assert (ended.status, said in ended.said) == (1, True), ended.said
    assert gateway.requests == 0
    assert not list(tmp_path.glob("out*"))


def test_no_rows_are_no_mistake(run, url, tmp_path):
    (tmp_path / "rows.csv").write_text("input\n")
    ended = run("predict", tmp_path / "rows.csv", "--model", "digits", "--out", tmp_path / "out.csv")
    assert (ended.status, "there are no rows, so nothing was sent" in ended.said) == (0, True)
    assert (tmp_path / "out.csv").read_text() == "row,id,action,prediction,confidence,reason,error\n"


def test_a_row_without_an_input_is_refused_alone(run, url, tmp_path, rows):
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in [rows[0], {"text": "x"}, rows[1]]))
    ended = run("predict", tmp_path / "rows.jsonl", "--model", "digits", "--out", tmp_path / "out.jsonl")
    assert ended.status == 1
    assert "row 2: " in ended.said
    assert "line 2: there is no 'input'; there are: 'text'" in ended.said
    assert [row["error"] is None for row in results(tmp_path / "out.jsonl")] == [True, False, True]


def test_two_at_once_do_not_write_the_same_file(run, url, tmp_path, rows):
    from demur.serve.commands.bulk.result_log import open_log

    file, out = write(tmp_path / "rows.jsonl", rows), tmp_path / "out.jsonl"
    log = open_log(out, {}, None)
    assert "another demur writes to" in run("predict", file, "--model", "digits", "--out", out).said
    log.close()


def test_the_report_lists_the_first_twenty(run, url, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"input": [[1]]}\n' * 30)
    ended = run("predict", tmp_path / "rows.jsonl", "--model", "digits", "--out", tmp_path / "out.jsonl")
    assert ended.said.count(REFUSED) == 20
    assert "and 10 more" in ended.said
    assert sum(row["error"] == REFUSED for row in results(tmp_path / "out.jsonl")) == 30


def test_the_file_of_results_is_private(run, url, tmp_path, rows):
    file, out = write(tmp_path / "rows.jsonl", rows[:1]), tmp_path / "out.jsonl"
    run("predict", file, "--model", "digits", "--out", out)
    assert out.stat().st_mode & 0o077 == 0


def test_texts_of_a_service_are_no_formulas(tmp_path):
    from demur.serve.commands.bulk.result_file import write_results

    result = {**dict.fromkeys(runs.PREDICTED), "row": 1, "prediction": "=1+1", "reason": "@x"}
    write_results([result], tmp_path / "out.csv", runs.PREDICTED, lists=False)
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == "1,,,'=1+1,,'@x,"
    many = {**result, "prediction": ["a", "b"]}
    write_results([many, {**result, "prediction": None}], tmp_path / "out.parquet", runs.PREDICTED, lists=True)
    assert parquet.read_table(tmp_path / "out.parquet")["prediction"].to_pylist() == [["a", "b"], None]
