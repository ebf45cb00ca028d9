"""A YAML file with the place of everything in it: repeated keys, aliases, merges, and what is no YAML."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.config.document import MOST_VALUES, read_document
from demur.serve.config.yaml_trouble import NotYaml
from tests.conftest import ROOT


@pytest.fixture
def read(tmp_path):
    def of(text):
        (tmp_path / "x.yaml").write_text(text)
        return read_document(tmp_path / "x.yaml")

    return of


def wrong(document):
    return [mistake.words for mistake in document.mistakes]


def test_everything_has_its_place(read):
    document = read("a: 1\nb:\n  - {c: x, d: [yes, 'no']}\n")
    assert document.content == {"a": 1, "b": [{"c": "x", "d": [True, "no"]}]}
    spot, taken = document.spot(("b", 0, "d", 0))
    assert (str(spot.mark), spot.written, taken) == ("line 3, column 16", "yes", 4)
    assert document.spot(("b", 0, "d", 1))[0].written is None  # in quotes it is what it says
    assert str(document.spot(("b", 0, "d"))[0].key) == "line 3, column 12"
    spot, taken = document.spot(("b", 0, "e", "f"))
    assert (str(spot.mark), taken) == ("line 3, column 5", 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", ["line 3, column 1: a: this key is there twice, first in line 1"]),
        ("a: {b: 1, c: 2, b: 3}", ["line 1, column 17: a.b: this key is there twice, first in line 1"]),
        ('"1": a\n1: b\n', ["line 2, column 1: 1: this key is there twice, first in line 1"]),
        ("[{a: 1,\n a: 2}]", ["line 2, column 2: 0.a: this key is there twice, first in line 1"]),
        ("b: &b {}\na: {<<: *b, <<: *b}", ["line 2, column 13: a.<<: this key is there twice, first in line 2"]),
        (
            "a: {b: 1, b: 2}\nc: {d: 1, d: 2}",
            [
                "line 1, column 11: a.b: this key is there twice, first in line 1",
                "line 2, column 11: c.d: this key is there twice, first in line 2",
            ],
        ),
        ("? [a]\n: 1", ["line 1, column 3: a key is a text, and this is a list or mapping"]),
        (
            "a: !!python/object:os.system x",
            ["line 1, column 4: a: the tag !!python/object:os.system is not taken here; leave it out"],
        ),
        ("a: !!set {x}", ["line 1, column 4: a: the tag !!set is not taken here; leave it out"]),
        ("a: 010", ["line 1, column 4: a: YAML reads '010' as the number 8; write that, or put a text in quotes"]),
        ("a: 1:30", ["line 1, column 4: a: YAML reads '1:30' as the number 90; write that, or put a text in quotes"]),
        (
            "a: 2026-13-45",
            ["line 1, column 4: a: YAML can make nothing of '2026-13-45'; put it in quotes if it is a text"],
        ),
        (
            "a: [1]\nb: {<<: 3}",
            ["line 2, column 9: b: `<<` takes a mapping, such as an alias of one, or a list of them"],
        ),
    ],
)
def test_what_is_wrong_with_it_is_told_at_its_place(read, text, said):
    assert wrong(read(text)) == said


def test_merges_are_followed_as_yaml_has_it(read):
    text = "x: &x {a: 1, b: 2}\ny: &y {b: 3, c: 4}\nz: {<<: [*x, *y], c: 5}\n"
    document = read(text)
    assert document.content == yaml.safe_load(text)
    assert document.content["z"] == {"a": 1, "b": 2, "c": 5}
    assert not document.mistakes
    assert str(document.spot(("z", "b"))[0].mark) == "line 1, column 17"  # where it was written


def test_a_key_is_the_text_that_is_written(read):
    assert read("yes: 1\n01: 2\n~: 3\n").content == {"yes": 1, "01": 2, "~": 3}


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGED = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 10)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.slow
@pytest.mark.parametrize("text", [LAUGHS, MERGED], ids=["aliases", "merges"])
def test_a_few_lines_cannot_stand_for_more_than_there_is_memory(read, text):
    with pytest.raises(NotYaml, match=f"stands for more than {MOST_VALUES:,} values, aliases counted"):
        read(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [*a]", "line 1, column 4: what this alias stands for holds the alias itself"),
        ("a: &a {<<: *a}", "line 1, column 4: what this alias stands for holds the alias itself"),
        ("[" * 200 + "]" * 200, "line 1, column 101: more than 100 lists and mappings lie within each other here"),
        ("[" * 5000, ": too many lists or mappings lie within each other"),
        ("a: [1", "line 1, column 6: the list that `[` opens in line 1 is not closed, or a comma is missing in it"),
        ("a: {b: 1", "line 1, column 9: what `{` opens in line 1 is not closed by `}`, or a comma is missing in it"),
        ("a:\n\tb: 1", "line 2, column 1: a tab stands here; indent with blanks"),
        ("a: b: c", "line 1, column 5: a `:` is not expected here; put a text with a colon in quotes"),
        ("a: *x", "line 1, column 4: `*x` stands for `&x`, which is nowhere above"),
        ("a: 1\n---\nb: 2", "line 2, column 1: a second document begins here with `---`; a file has one"),
        ("a: 'x", "line 1, column 6: the quotes that open in line 1 are never closed"),
        ('a: "\\q"', "line 1, column 6: `\\q` means nothing within double quotes; use single quotes"),
        ("a: @x", 'line 1, column 4: a text that begins with "@" needs quotes'),
        ("a: - b", "line 1, column 4: a list of `-` begins on a line of its own"),
        ("a:\n  b: 1\n c: 2", "line 3, column 2: this does not line up with the lines above"),
        ("a: &x 1\nb: &x 2", "line 2, column 4: an anchor of this name is there twice, first in line 1"),
        ("a: \x01", ": character 4 is not taken in YAML (U+0001); leave it out"),
        ("a: |\n x\ny", "line 3, column 2: a `:` is missing behind the key in line 3"),
        ("{", "line 1, column 2: the file ends where a value is wanted"),
    ],
)
def test_what_is_no_yaml(read, text, said):
    with pytest.raises(NotYaml) as refused:
        read(text)
    assert said in str(refused.value)


PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=20,
)


@pytest.mark.slow
@given(PLAIN)
def test_it_reads_what_yaml_reads(tmp_path, content):
    text = yaml.safe_dump(content, allow_unicode=True)
    (tmp_path / "x.yaml").write_text(text)
    document = read_document(tmp_path / "x.yaml")
    assert document.content == yaml.safe_load(text)
    assert not document.mistakes


def test_no_file_of_ours_says_a_thing_twice():
    files = [path for path in (ROOT / "deploy").rglob("*") if path.suffix in (".yaml", ".yml")]
    assert len(files) >= 5
    for path in files:
        for number, part in enumerate(path.read_text().split("\n---")):
            part_of = path.parent / f"{path.name} ({number})"
            assert not _repeated(yaml.compose(part)), part_of


def _repeated(node):
    """Keys that a mapping, or one within it, has twice."""
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        return sorted({key for key in keys if keys.count(key) > 1}) + [k for _, v in node.value for k in _repeated(v)]
    return [key for child in node.value for key in _repeated(child)] if isinstance(node, yaml.SequenceNode) else []
