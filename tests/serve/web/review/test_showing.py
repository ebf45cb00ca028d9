"""What inputs look like to people."""

import pytest

from demur.serve.contract.pictures.formats import PNG, prefix_of
from demur.serve.web.review.showing import LINE, LONG, SHORT, glance, showing

PNG_PREFIX = prefix_of(PNG)

DOT = f"{PNG_PREFIX}iVBORw0KGgo="


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "gone"),
        ("a text", "text"),
        (f"{PNG_PREFIX}but it is a text", "text"),
        (DOT, "picture"),
        ([[0.0, 1.0], [1.0, 0.0]], "picture"),
        ([[[0, 0, 1]], [[1, 0, 0]]], "picture"),
        ({"messages": [{"role": "user", "content": "hello"}]}, "messages"),
        ({"question": "why?", "options": ["a", "b"]}, "question"),
        ({"name": "kettle", "price": 3}, "fields"),
        ({"messages": "none"}, "fields"),
        ({"options": ["a", "b"]}, "fields"),
        (["a", "b"], "text"),
        ([[1.0], [1.0, 2.0]], "text"),
        (3.5, "text"),
    ],
)
def test_kinds(value, kind):
    assert showing(value).kind == kind


def test_parts():
    assert showing({"question": "why?", "options": ["a", "b"]}).options == [("A", "a"), ("B", "b")]
    assert showing({"messages": [{"role": "user", "content": "hello"}]}).messages == [
        ("user", "hello", [("text", "hello")])
    ]
    fields = showing({"name": "kettle", "price": 3.5, "tags": ["a", "b"], "note": None, "size": {"cm": 3}}).fields
    assert fields == [
        ("name", "kettle"),
        ("price", "3.5"),
        ("tags", "a, b"),
        ("note", "–"),
        ("size", '{\n  "cm": 3\n}'),
    ]


@pytest.mark.parametrize(
    ("n", "size"), [(1, "short"), (SHORT, "short"), (SHORT + 1, "middle"), (LONG - 1, "middle"), (LONG, "long")]
)
def test_sizes(n, size):
    for value in ("x" * n, {"messages": [{"role": "user", "content": "x" * n}]}, {"a": "x" * n}):
        shown = showing(value)
        assert shown.size == size
        assert shown.characters == n
        assert shown.words == 1
    assert showing([[0.0, 1.0]]).size == "short"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "gone", ""),
        ("two\n words", "text", "two words"),
        ("x" * (LINE + 1), "text", "x" * LINE + "…"),
        (DOT, "picture", DOT),
        ("data:image", "text", "a picture"),  # all that a list is given of a large one
        ({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}, "text", "b"),
        ({"question": "why?", "options": ["a", "b"]}, "text", "why?"),
        ({"name": "kettle", "price": 3}, "text", "name: kettle, price: 3"),
    ],
)
def test_glances(value, kind, text):
    shown = glance(value)
    assert (shown.kind, shown.text) == (kind, text)
