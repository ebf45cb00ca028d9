"""Files that need not fit into memory are read as those that do, and refused with the same sentences."""

import json
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from demur.traffic import row_file
from demur.traffic.file_form import FileForm
from demur.traffic.row_file import open_rows
from demur.traffic.table_file import BadDataFile, rows_of
from tests.traffic.test_table_file import BAD

FILES = {
    "rows.csv": [
        "input,label\nsome text,yes\n",
        "\n\ninput;label\n\nsome text;yes\n",
        '\ufeffinput,label\r\n"two\r\nlines",yes\r\n,\r\n"[1, 2]",no',
        "input,label\nsome text,yes\n".encode("utf-16"),
        "input,label\ncafé,yes\n".encode("utf-8-sig"),
        "input,label\n",
        "",
    ],
    "rows.jsonl": [
        '{"input": "a\u2028b"}\n\n{"input": [1, {"x": null}]}\r\n{"input": "c"}',
        '\ufeff{"input": 1}\n',
        '{"input": "é"}\n'.encode("utf-16"),
        "",
    ],
}


@pytest.mark.parametrize(("name", "content"), [(name, one) for name, contents in FILES.items() for one in contents])
def test_it_reads_what_the_other_way_of_reading_does(tmp_path, name, content):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    file = open_rows(tmp_path / name)
    assert list(file.rows()) == list(rows_of(tmp_path / name))
    assert file.count == len(list(file.rows()))


def test_parquet(tmp_path):
    parquet.write_table(pa.table({"input": [[1.0], None] * 600, "n": range(1200)}), tmp_path / "rows.parquet")
    file = open_rows(tmp_path / "rows.parquet")
    assert list(file.rows()) == list(rows_of(tmp_path / "rows.parquet"))
    assert file.count == 1200


@pytest.mark.parametrize(("name", "content", "why"), BAD, ids=[why[:40] for _, _, why in BAD])
def test_a_bad_file_is_the_same_sentence(tmp_path, name, content, why):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadDataFile, match=why) as refused:
        open_rows(tmp_path / name)
    if (name, content[:4]) != ("rows.csv", b"PK\x03\x04"):  # of which the other way says more
        with pytest.raises(BadDataFile) as in_memory:
            list(rows_of(tmp_path / name))
        assert str(refused.value) == str(in_memory.value)


@pytest.mark.parametrize("path", ["missing.csv", "folder.csv", "rows.txt", "null\0.csv"])
def test_no_file_is_the_same_sentence(tmp_path, path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(BadDataFile) as refused:
        open_rows(tmp_path / path)
    with pytest.raises(BadDataFile) as in_memory:
        list(rows_of(tmp_path / path))
    assert str(refused.value) == str(in_memory.value)


def test_the_whole_file_is_looked_at_before_a_row_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(row_file, "PIECE", 100)
    path = tmp_path / "rows.csv"
    path.write_bytes(b"input\n" + b"good\n" * 1000 + "café\n".encode("cp1252"))
    with pytest.raises(BadDataFile, match=r"line 1002: byte 0xe9 is no text in UTF-8; it looks like cp1252"):
        open_rows(path)
    assert open_rows(path, FileForm(encoding="cp1252")).count == 1001
    path.write_bytes(b"input\n" + b"good\n" * 1000 + b"a\0b\n")
    with pytest.raises(BadDataFile):
        open_rows(path)
    path.write_bytes(b"input\n" + "ä".encode() * 500)  # letters across the ends of pieces
    assert open_rows(path).count == 1


def test_a_row_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(row_file, "LONGEST_ROW", 1000)
    path = tmp_path / "rows.csv"
    path.write_text("input\n" + "a\n" * 2000)
    assert open_rows(path).count == 2000
    path.write_text('input\n"' + "a\n" * 2000)
    with pytest.raises(BadDataFile, match=r"line 498: .* more than 1,000 characters; is a double quote opened"):
        open_rows(path)
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"a": "b" * 990}) + "\n" + json.dumps({"a": "b" * 2000}) + "\n")
    with pytest.raises(BadDataFile, match=r"line 2: the row has more than 1,000 characters$"):
        open_rows(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl"])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    path = tmp_path / name
    line = '{"input": "%s"}\n' if name == "rows.jsonl" else "%s\n"
    with path.open("w") as file:
        file.write("" if name == "rows.jsonl" else "input\n")
        file.writelines(line % ("x" * 1000) for _ in range(40_000))  # 40 MB
    tracemalloc.start()
    assert open_rows(path).count == 40_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 2**20
