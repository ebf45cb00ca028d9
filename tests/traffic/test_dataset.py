import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from demur.serve.contract.commit import Writing
from demur.serve.gateway.journal import commit
from demur.traffic import log
from demur.traffic.dataset import count_logged, logged_pages, read_labelled_file
from demur.traffic.file_form import FileForm
from demur.traffic.outcomes import LATEST
from demur.traffic.table_file import BadDataFile
from tests.conftest import entry

ROWS = [
    {"input": [[0.0, 0.5]], "label": "1", "group": "left"},
    {"input": [[1.0, 0.25]], "label": "0", "group": None},
]


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    elif path.suffix == ".csv":
        quoted = [
            '"' + json.dumps(row["input"]).replace('"', '""') + f'",{row["label"]},{row["group"] or ""}' for row in rows
        ]
        path.write_text("\n".join(["input,label,group", *quoted]))
    else:
        parquet.write_table(pa.Table.from_pylist(rows), path)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_every_format_holds_the_same(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    write(path, ROWS)
    read = read_labelled_file(path)
    assert read.inputs == [row["input"] for row in ROWS]
    assert read.labels == ["1", "0"]
    assert read.groups == ["left", None]


def test_text_in_a_csv_stays_text(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('input,label\n"[sic] said, he",yes\n"plain",no\n')
    assert read_labelled_file(path).inputs == ["[sic] said, he", "plain"]


def test_only_in_files_of_ours_an_apostrophe_stands_before_a_formula(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("input,label\n'=1+1,'-\n")
    assert read_labelled_file(path).inputs == ["'=1+1"]
    path.write_text("case,record,model,input,label\nc,r,m,'=1+1,'-\nc,r,m,'tis,''=\n")
    read = read_labelled_file(path)
    assert (read.inputs, read.labels) == (["=1+1", "'tis"], ["-", "'="])


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("rows.txt", "x", "must end in one of"),
        ("rows.jsonl", '{"input": 1, "label": "a"}\n{"input": 1', "line 2: not JSON"),
        ("rows.jsonl", '{"input": 1}', "line 1: there is no 'label'"),
        ("rows.jsonl", "[1, 2]", "line 1: not an object"),
        ("rows.jsonl", "", "there are no rows"),
        ("rows.csv", "text,class\na,b\n", "there is no 'input'"),
        ("rows.parquet", "not parquet", "not a Parquet file"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, name, content, why):
    (tmp_path / name).write_text(content)
    with pytest.raises(BadDataFile, match=why):
        read_labelled_file(tmp_path / name)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(BadDataFile, match="no such file"):
        read_labelled_file(tmp_path / "rows.csv")


def test_pages_hold_every_record_of_the_range_once_and_in_order(database):
    start = datetime(2026, 11, 1, tzinfo=UTC)
    entries = [
        entry(created_at=start + timedelta(hours=at // 3), model=model, input={"at": at})
        for model in ("toy", "other")
        for at in range(11)  # three of the same moment, so that pages end between them
    ]
    with database.transaction() as connection:
        log.append(connection, entries[::-1])
        for label in (["1"], []):
            log.add_outcome(connection, entries[4].record.id, label=label, source="api", author=None)
        connection.execute("delete from payloads where record_id = %s", (entries[5].record.id,))
    until = start + timedelta(hours=3)
    wanted = [e.record.id for e in sorted(entries[:9], key=lambda e: (e.record.created_at, e.record.id))]
    for size in (1, 2, 3, 9, 100):
        pages = list(logged_pages(database, "toy", precedence=LATEST, since=start, until=until, size=size))
        assert [record.id for page in pages for record in page] == wanted
        assert {len(page) for page in pages[:-1]} <= {size}
    records = {record.id: record for page in pages for record in page}
    forgotten, told = records[entries[5].record.id], records[entries[4].record.id]
    assert (forgotten.has_input, forgotten.input) == (False, None)
    assert (told.has_input, told.input, told.outcome) == (True, {"at": 4}, [])
    labelled = list(logged_pages(database, "toy", precedence=LATEST, since=None, until=None, labelled=True, size=5))
    assert [[record.id for record in page] for page in labelled] == [[entries[4].record.id]]
    with database.transaction() as connection:
        assert count_logged(connection, "toy", since=start, until=until) == 9
        assert count_logged(connection, "toy", since=None, until=None) == 11
        assert count_logged(connection, "toy", since=None, until=None, labelled=True) == 1
    assert list(logged_pages(database, "nobody", precedence=LATEST, since=None, until=None, size=5)) == []


def test_a_text_may_hold_any_character(database):
    text = "a\x00b \\u0000 é"
    written = [entry(prediction="right", reply={"text": text, "finish_reason": "stop"}), entry()]
    done = [one.record for (one,) in commit(database, [Writing(one) for one in written])]
    assert done == [one.record for one in written]
    [page] = logged_pages(database, "toy", precedence=LATEST, since=None, until=None, size=5)
    assert [record.said for record in page] == [text, "7"]


def test_a_column_names_what_a_row_belongs_to(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("input,label,cluster,patient\na,x,c1,p1\nb,y,,p1\n")
    assert read_labelled_file(path).clusters == ["c1", None]
    assert read_labelled_file(path, FileForm(cluster="patient")).clusters == ["p1", "p1"]
    with pytest.raises(BadDataFile, match=r"there is no 'person'.*--cluster or calibration.cluster_column"):
        read_labelled_file(path, FileForm(cluster="person"))
