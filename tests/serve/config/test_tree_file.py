import json

import pytest

from demur.serve.config.tree_file import BadTreeFile, as_parents, read_parents


@pytest.mark.parametrize(
    ("text", "parents"),
    [
        ("child,parent\nb,a\nc,a\nc,b\n", {"b": ["a"], "c": ["a", "b"]}),
        ("b,a", {"b": ["a"]}),  # no header
        ("\ufeffChild, Parent\r\n b , a \r\n\r\n", {"b": ["a"]}),  # as a spreadsheet writes it
        ('"b, or so",a\na,\n', {"b, or so": ["a"], "a": []}),
        ("", {}),
    ],
)
def test_pairs(tmp_path, text, parents):
    (tmp_path / "tree.csv").write_text(text, encoding="utf-8", newline="")
    assert read_parents(tmp_path / "tree.csv") == parents


def test_a_mapping(tmp_path):
    (tmp_path / "tree.json").write_text(json.dumps({"b": "a", "c": ["a", "b"], "a": None}))
    assert read_parents(tmp_path / "tree.json") == {"b": ["a"], "c": ["a", "b"], "a": []}


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("tree.csv", b"b,a\nc\n", "line 2: there are 2 columns"),
        ("tree.csv", b"b,a,3\n", "line 1: there are 2 columns"),
        ("tree.csv", b",a\n", "line 1: there are 2 columns"),
        ("tree.csv", b"b,\xff\n", "line 1: byte 0xff is no text in UTF-8; it looks like cp1252"),
        ("tree.json", b"[1, 2", "is not JSON"),
        ("tree.json", b'["a", "b"]', "a mapping from a label"),
        ("tree.json", b'{"b": [["a"]]}', "labels are texts"),
        ("tree.json", b'{"b": ""}', "labels are texts"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_place(tmp_path, name, content, why):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadTreeFile, match=why):
        read_parents(tmp_path / name)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadTreeFile, match=r"there is no such file; write imdrf, or name a .csv or .json file"):
        read_parents(tmp_path / "tree.csv")


def test_labels_that_yaml_takes_for_numbers_are_named():
    with pytest.raises(BadTreeFile, match="101 has the parents 100; labels are texts, so put them in quotes"):
        as_parents({101: 100})
