"""Inputs as programs have them, as JSON."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from demur.client.errors import InvalidRequest
from demur.client.items import Item, NewOutcome, encoded, length_of, outcome_body, prediction_body, rows_of

ID = "01939f2e-5b7a-7cc3-98c4-dc0c0c07398f"


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("ä", '"ä"'),
        (np.array([[0.5, 1.0]]), "[[0.5,1.0]]"),
        (np.arange(3), "[0,1,2]"),
        (np.float32(0.5), "0.5"),
        ({"a": np.int64(3), "b": np.bool_(True)}, '{"a":3,"b":true}'),
        (np.array(["x"]), '["x"]'),
        (np.array([np.nan]), "[NaN]"),  # which the service judges, not the client
        (pd.Series({"a": 1, "b": None, "c": "x"}), '{"a":1,"b":null,"c":"x"}'),
        (pd.Series([1.5, np.nan], index=["a", "b"]), '{"a":1.5,"b":null}'),
        ({"a": pd.NA, "b": pd.NaT}, '{"a":null,"b":null}'),
        (pa.scalar([1, None]), "[1,null]"),
        (pa.array([1, 2]), "[1,2]"),
        ([date(2026, 11, 21), datetime(2026, 11, 21, tzinfo=UTC)], '["2026-11-21","2026-11-21T00:00:00+00:00"]'),
        ([Decimal("1.5"), UUID(ID)], f'[1.5,"{ID}"]'),
        (b"\x89PNG\r\n", '"data:image/png;base64,iVBORw0K"'),
        (("a", 1), '["a",1]'),
    ],
)
def test_values(value, sent):
    assert encoded(value).decode() == sent


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


def circular():
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("\ud800", "half a character"),
        (object(), "no JSON for object"),
        ({1, 2}, "no JSON for set"),
        ({(1, 2): 3}, "keys must be"),
        (b"GIF89a", "a PNG, a JPEG or a WebP"),
        (circular(), "cannot be sent as JSON|nested too deep"),
        (deep(), "nested too deep"),
    ],
)
def test_what_has_no_json(value, said):
    with pytest.raises(InvalidRequest, match=said):
        encoded(value)


def test_rows():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert list(rows_of(frame)) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert list(rows_of(pa.table({"a": [1, None]}))) == [{"a": 1}, {"a": None}]
    assert list(rows_of(pa.chunked_array([[1], [2]]))) == [1, 2]
    assert [json.loads(encoded(row)) for row in rows_of(np.eye(2))] == [[1, 0], [0, 1]]
    assert list(rows_of(pd.Series(["x", "y"]))) == ["x", "y"]
    assert list(rows_of(value for value in "ab")) == ["a", "b"]
    assert [length_of(value) for value in (frame, [1], np.eye(3), iter([1]))] == [2, 1, 3, None]


def test_a_long_table_is_taken_apart():
    many = pd.DataFrame({"a": range(2500)})
    assert [row["a"] for row in rows_of(many)] == list(range(2500))
    assert [row["a"] for row in rows_of(pa.table({"a": range(2500)}))] == list(range(2500))


@pytest.mark.parametrize("values", ["text", b"bytes", {"a": 1}, 7, None])
def test_one_input_is_no_list_of_them(values):
    with pytest.raises(InvalidRequest, match="a list of inputs is wanted here"):
        list(rows_of(values))


def test_an_item_says_otherwise_than_the_others():
    everywhere = Item(group="g", review={"priority": 1})
    assert prediction_body("m", "x", everywhere) == {
        "model": "m",
        "input": "x",
        "group": "g",
        "review": {"priority": 1},
    }
    own = Item(input="x", group="h", cluster="c", output=[1.0])
    assert prediction_body("m", own, everywhere) == {
        "model": "m",
        "input": "x",
        "output": [1.0],
        "group": "h",
        "cluster": "c",
        "review": {"priority": 1},
    }
    assert prediction_body("m", None, Item()) == {"model": "m", "input": None}  # the service says what it thinks of it


def test_outcomes():
    wanted = {"id": ID, "label": "7", "source": "api"}
    assert outcome_body(NewOutcome(id=UUID(ID), label="7")) == wanted
    assert outcome_body({"id": ID, "label": "7", "author": None}) == {"id": ID, "label": "7"}
    with pytest.raises(InvalidRequest, match="id and label"):
        outcome_body((ID, "7"))
