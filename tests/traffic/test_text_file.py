"""Texts in the encodings that people's programs write, and what is said of files that are no text."""

import pytest

from demur.traffic.text_file import NotText, likely_encoding, read_text

CAFÉ = "input,label\ncafé à Zürich,yes\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_what_says_its_encoding_is_read_in_it(tmp_path, encoding):
    (tmp_path / "rows.csv").write_bytes(CAFÉ.encode(encoding))
    assert read_text(tmp_path / "rows.csv") == CAFÉ


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16-le", "utf-16-be"])
def test_what_does_not_is_read_where_somebody_names_it(tmp_path, encoding):
    (tmp_path / "rows.csv").write_bytes(CAFÉ.encode(encoding))
    assert read_text(tmp_path / "rows.csv", encoding) == CAFÉ


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            CAFÉ.encode("cp1252"),
            "rows.csv, line 2: byte 0xe9 is no text in UTF-8; it looks like cp1252, which makes of it"
            " 'café à Zürich,yes': save the file as UTF-8",
        ),
        (
            CAFÉ.encode("utf-16-le"),
            "rows.csv, line 2: byte 0xe9 is no text in UTF-8; it looks like utf-16-le, which makes of it"
            " 'café à Zürich,yes': save the file as UTF-8",
        ),
        (
            "input,label\n".encode("utf-16-be"),
            "rows.csv, line 1: byte 0x00 is no text in UTF-8; it looks like utf-16-be, which makes of it 'input,label':"
            " save the file as UTF-8",
        ),
        (
            b"PK\x03\x04rest",
            "is no text: it is an Excel workbook or another zip archive; save the table as CSV (UTF-8)",
        ),
        (b"PAR1rest", "is no text: it is a Parquet file; let its name end in .parquet"),
        (b"\x1f\x8brest", "is no text: it is compressed with gzip; unpack it first"),
        (b"\x00\x01\x02some weights\xff" * 40, "rows.csv is no text file"),
    ],
    ids=["cp1252", "utf-16", "utf-16 of ASCII", "excel", "parquet", "gzip", "binary"],
)
def test_what_is_no_text_is_refused_in_a_sentence(tmp_path, content, why):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(NotText) as refused:
        read_text(tmp_path / "rows.csv")
    assert str(refused.value).endswith(why)


def test_what_cannot_be_opened_is_refused_in_a_sentence(tmp_path):
    for path, why in (
        (tmp_path, "is a folder, and a file is wanted"),
        (tmp_path / "none", "none: there is no such file"),
    ):
        with pytest.raises(NotText, match=why):
            read_text(path)
    with pytest.raises(NotText, match="cannot be read"):
        read_text(tmp_path / "a\0b")


def test_an_encoding_that_is_none_is_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("a")
    with pytest.raises(NotText, match="'utf8-latin' is no encoding that is known; such are utf-8, cp1252"):
        read_text(tmp_path / "rows.csv", "utf8-latin")


def test_the_encoding_to_try():
    assert likely_encoding("é".encode("cp1252")) == "cp1252"
    assert likely_encoding(b"\x81\xe9") == "latin-1"  # cp1252 has no letter for the first of them
    assert likely_encoding("abc".encode("utf-16-be")) == "utf-16-be"
    assert likely_encoding(bytes(100)) is None
