"""Files of rows as people prepare them, and one sentence for each thing that may be wrong with them."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from demur.traffic.dataset import read_labelled_file
from demur.traffic.file_form import FileForm
from demur.traffic.row_file import open_rows
from demur.traffic.table_file import BadDataFile, rows_of

GOOD = {"input": "some text", "label": "yes"}


def rows(tmp_path, name, content, encoding=None):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [row for _, row in rows_of(tmp_path / name, FileForm(encoding=encoding))]


@pytest.mark.parametrize(
    "content",
    [
        "input,label\nsome text,yes\n",
        "input;label\nsome text;yes\n",  # Excel, where the comma is for decimals
        "input\tlabel\nsome text\tyes\n",
        "\ufeffinput,label\r\nsome text,yes\r\n,\r\n",  # Excel's UTF-8, and a row that was emptied
        "\n\ninput , label\nsome text,yes\n",
        '"input","label"\n"some text","yes"',
        "input,label\nsome text,yes\n".encode("utf-16"),
    ],
)
def test_tables_of_spreadsheets(tmp_path, content):
    assert rows(tmp_path, "rows.csv", content) == [GOOD]


def test_the_name_may_end_in_capitals(tmp_path):
    assert rows(tmp_path, "ROWS.CSV", "input,label\nsome text,yes\n") == [GOOD]
    assert rows(tmp_path, "rows.JSONL", json.dumps(GOOD)) == [GOOD]


def test_a_picture_is_longer_than_what_a_cell_may_hold_by_default(tmp_path):
    picture = [[0.25] * 400] * 400
    content = 'input,label\n"' + json.dumps(picture) + '",yes\n'
    assert rows(tmp_path, "rows.csv", content) == [{"input": picture, "label": "yes"}]


def test_what_has_no_name_and_the_numbers_of_pandas_are_no_columns(tmp_path):
    assert rows(tmp_path, "rows.csv", ",input,label,\n0,some text,yes,\n") == [GOOD]
    assert rows(tmp_path, "rows.csv", "0,1,2\n4,5,6\n") == [{"0": "4", "1": "5", "2": "6"}]
    parquet.write_table(
        pa.table({"input": ["some text"], "label": ["yes"], "__index_level_0__": [7]}), tmp_path / "a.parquet"
    )
    assert [row for _, row in rows_of(tmp_path / "a.parquet")] == [GOOD]


def test_what_json_has_not_is_read_as_it_is_sent(tmp_path):
    when, money = datetime(2026, 11, 21, 8, 30, tzinfo=UTC), Decimal("1.50")
    table = pa.table({"when": [when], "day": [when.date()], "much": [{"money": [money, None]}], "n": [1]})
    parquet.write_table(table, tmp_path / "rows.parquet")
    wanted = {"when": "2026-11-21T08:30:00+00:00", "day": "2026-11-21", "much": {"money": [1.5, None]}, "n": 1}
    assert [row for _, row in rows_of(tmp_path / "rows.parquet")] == [wanted]
    assert [row for _, row in open_rows(tmp_path / "rows.parquet").rows()] == [wanted]


def test_a_parquet_file_that_is_cut_in_half(tmp_path):
    parquet.write_table(pa.table({"input": range(1000)}), tmp_path / "rows.parquet")
    half = (tmp_path / "rows.parquet").read_bytes()[:2000]
    with pytest.raises(BadDataFile, match="it is cut off; copy it again"):
        rows(tmp_path, "rows.parquet", half)


DEEP = "[" * 100_000

BAD = [
    ("rows.csv", "input,label\na,b,c\n", "line 2: the header names 2 columns, and here are 3 cells; put a text with"),
    ("rows.csv", "input,label\na\n", "line 2: the header names 2 columns, and here are 1 cells"),
    ("rows.csv", 'input,label\n"a,b\nc,d\n', "line 2: a double quote is opened and never closed"),
    ("rows.csv", 'input,label\n"a" b,c\n', "line 2: ',' expected after '\"'; write a double quote within a quoted"),
    ("rows.csv", "input,label,label\na,b,c\n", "line 1: the column 'label' is there twice"),
    (
        "rows.csv",
        "input,label\ncafé,b\n".encode("cp1252"),
        "'café,b': save the file as UTF-8, or set --encoding or calibration.encoding to cp1252",
    ),
    ("rows.csv", b"PK\x03\x04", "an Excel workbook"),
    ("rows.jsonl", '{"input": 1, "input": 2}', "line 1: the key 'input' is there twice; leave one of them out"),
    (
        "rows.jsonl",
        '[\n{"input": 1}\n]',
        "line 1: not JSON: .*a .jsonl has one object on each line, and no list around",
    ),
    ("rows.jsonl", DEEP, "line 1: not JSON: it cannot be read"),
    ("rows.jsonl", "1" * 5000, "line 1: not JSON: it cannot be read"),
    ("rows.jsonl", '[{"input": 1}]', "line 1: not an object; a .jsonl has one object on each line, and no list around"),
    ("rows.jsonl", '{\n"input": 1}', "line 1: not JSON: .* at column 2; a .jsonl has one object on each line"),
    (
        "rows.jsonl",
        '{"input": 1}\n{"input": 1,\n{"input": 2}',
        "line 2: not JSON: .* at column 13; mend the line, or leave it out",
    ),
    ("rows.jsonl", "input,label\na,b\n", "line 1: not JSON: .*; a table is called .csv"),
    (
        "rows.csv",
        '{"input": 1, "label": "a"}\n',
        "line 1: this is JSON, .*one JSON object on each line is called .jsonl",
    ),
    ("rows.csv", "13.5,-2,yes\n14.5,-3,no\n", "line 1: these are numbers; put a line with the names of the columns"),
    ("rows.parquet", b"PAR1", "not a Parquet file: it is cut off; copy it again, or write it anew"),
    ("rows.parquet", b"", "not a Parquet file: it is empty"),
    ("rows.parquet", "input,label\na,b\n", "not a Parquet file: it is a text; let its name end in .csv, or in .jsonl"),
    ("rows.parquet", b"PK\x03\x04", "not a Parquet file: it is an Excel workbook"),
    ("rows.parquet", bytes(99), "not a Parquet file: it is something else"),
    ("rows.xlsx", b"PK\x03\x04", "must end in one of .jsonl, .csv, .parquet; save a workbook as CSV"),
    ("rows.json", "[]", "must end in one of .*; a file with one JSON object on each line is called .jsonl"),
    ("rows.csv.gz", b"\x1f\x8b", "must end in one of .*; unpack a compressed file first"),
    ("rows", "a,b", "must end in one of .jsonl, .csv, .parquet$"),
]


@pytest.mark.parametrize(("name", "content", "why"), BAD, ids=[why[:40] for _, _, why in BAD])
def test_a_bad_file_is_one_sentence(tmp_path, name, content, why):
    with pytest.raises(BadDataFile, match=why) as refused:
        rows(tmp_path, name, content)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_a_folder_and_nothing_at_all(tmp_path, name):
    with pytest.raises(BadDataFile, match="there is no such file"):
        list(rows_of(tmp_path / name))
    (tmp_path / name).mkdir()
    with pytest.raises(BadDataFile, match="is a folder, and a file is wanted"):
        list(rows_of(tmp_path / name))


@given(st.binary(max_size=200), st.sampled_from(["rows.csv", "rows.jsonl", "rows.parquet"]))
@example(b'input,label\n"', "rows.csv")
@example(b"\xff\xfe\x00", "rows.csv")
@example(b'{"input": 1e999}', "rows.jsonl")
def test_no_file_ends_in_a_traceback(tmp_path, content, name):
    with suppress(BadDataFile):
        rows(tmp_path, name, content)


CALLED = FileForm(input="text", label="class")


def test_other_columns_and_another_encoding(tmp_path):
    (tmp_path / "rows.csv").write_bytes("text;class\ncafé;yes\n".encode("cp1252"))
    form = FileForm(input="text", label="class", encoding="cp1252")
    read = read_labelled_file(tmp_path / "rows.csv", form)
    assert (read.inputs, read.labels) == (["café"], ["yes"])


@pytest.mark.parametrize(
    ("content", "form", "why"),
    [
        (
            "text,class\na,b\n",
            FileForm(),
            "line 2: there is no 'input'; there are: 'text', 'class'; name the one that is meant with --input-column"
            " or calibration.input_column",
        ),
        (
            "text,class\na,b\n",
            FileForm(section="prompt.few_shot"),
            "there are: 'text', 'class'; name the one that is meant with prompt.few_shot.input_column",
        ),
        (
            "text,label\na,b\n",
            CALLED,
            "there is no 'class'; there are: 'text', 'label'; name the one that is meant with",
        ),
        ("a,b,label\n1,2,\n", None, "line 2: 'label' is empty"),
        ("input,label\na,\n", None, "line 2: 'label' is empty"),
        ("input,label\n", None, "there are no rows"),
        ("", None, "there are no rows"),
    ],
)
def test_what_a_labelled_file_lacks(tmp_path, content, form, why):
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(BadDataFile) as refused:
        read_labelled_file(tmp_path / "rows.csv", form)
    assert why in str(refused.value)


def test_a_later_row_without_a_label_lacks_that_and_no_input(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"age": 1, "label": "yes"}\n{"age": 2}\n')
    with pytest.raises(BadDataFile, match="line 2: there is no 'label'; there are: 'age'"):
        read_labelled_file(tmp_path / "rows.jsonl")


def test_parquet_names_its_columns(tmp_path):
    parquet.write_table(pa.Table.from_pylist([{"text": "a", "class": "b"}]), tmp_path / "rows.parquet")
    with pytest.raises(BadDataFile, match="row 1: there is no 'input'; there are: 'text', 'class'"):
        read_labelled_file(tmp_path / "rows.parquet")
    assert read_labelled_file(tmp_path / "rows.parquet", CALLED).labels == ["b"]
