"""Rows of a table, checked against their columns."""

import math

import numpy as np
import pytest

from demur.serve.config.input import InputConfig
from demur.serve.contract.inputs import InputLimits, InvalidRequest, TableRow, TooLarge, example_of, spec_of
from demur.serve.contract.reading.inputs import read_input, read_inputs
from demur.serve.contract.reading.tables import by_name

LIMITS = InputLimits(text_characters=20)

SPEC = spec_of(
    InputConfig.model_validate(
        {
            "kind": "table",
            "columns": {
                "age": {"min": 0, "max": 130},
                "income": {"kind": "number", "missing": True},
                "smoker": "boolean",
                "job": ["clerk", "nurse"],
                "city": {"kind": "category", "values": ["Bonn"], "unknown": "missing", "missing": True},
                "street": {"kind": "category", "values": ["Main"], "unknown": "keep"},
                "note": {"kind": "text", "missing": True},
            },
        }
    )
)
ROW = {"age": 40, "income": 1.5, "smoker": True, "job": "nurse", "city": "Bonn", "street": "Main", "note": "a"}


def read(**changes):
    return read_input({**ROW, **changes}, SPEC, LIMITS)


def test_a_row_comes_as_an_object_or_as_an_array_and_is_the_same():
    right = TableRow((40.0, 1.5, 1.0, "nurse", "Bonn", "Main", "a"))
    assert read() == read_input(list(ROW.values()), SPEC, LIMITS) == right
    assert by_name(list(ROW.values()), SPEC) == ROW
    assert by_name([1], SPEC) == [1]
    turned = by_name(dict(reversed({**ROW, "income": 2}.items())), SPEC)
    assert list(turned) == list(ROW)
    assert list(by_name({"note": "a"}, SPEC).items())[:2] == [("age", None), ("income", None)]  # shown as missing


def test_the_order_of_the_keys_does_not_matter():
    assert read_input(dict(reversed(ROW.items())), SPEC, LIMITS) == read()


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_what_may_be_missing_is_none_however_it_is_left_out(nothing):
    assert read(income=nothing).cells[1] is None
    without = {name: value for name, value in ROW.items() if name != "income"}
    assert read_input(without, SPEC, LIMITS).cells[1] is None


def test_unknown_categories_are_missing_or_kept_as_the_column_says():
    assert read(city="Rome").cells[4] is None
    assert read(street="Side").cells[5] == "Side"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"age": None}, "input.age: a value is missing, and this model needs one"),
        ({"age": "40"}, "input.age: a number is wanted here, not a text"),
        ({"age": True}, "input.age: a number is wanted here, not true or false"),
        ({"age": 10**400}, "input.age: a finite number is wanted here"),
        ({"age": math.inf}, "input.age: a finite number is wanted here"),
        ({"age": -1}, "input.age: it is -1; at least 0 is taken"),
        ({"age": 200}, "input.age: it is 200; at most 130 is taken"),
        ({"smoker": 1}, "input.smoker: true or false is wanted here, not a number"),
        ({"job": "clark"}, "input.job: 'clark' is not one of: clerk, nurse; did you mean `clerk`?"),
        ({"job": 1}, "input.job: a text is wanted here, not a number"),
        ({"aeg": 1}, "input.aeg: 'aeg' is not one of: age"),
        ({"age": "x", "smoker": "y"}, "input.age: a number is wanted here, not a text; input.smoker: true or false"),
    ],
)
def test_what_does_not_fit_is_told_with_its_column(changes, why):
    with pytest.raises(InvalidRequest) as refused:
        read(**changes)
    assert why in str(refused.value)


def test_a_long_text_and_a_wrong_width_are_refused():
    with pytest.raises(TooLarge, match=r"input\.note: the text has 21 characters"):
        read(note="x" * 21)
    with pytest.raises(InvalidRequest, match="the array has 2 values, and this model takes 7, in this order: age, inc"):
        read_input([1, 2], SPEC, LIMITS)
    with pytest.raises(InvalidRequest, match=r"this model takes a row of a table.*and not a number"):
        read_input(3, SPEC, LIMITS)


def test_a_wrong_row_spoils_no_other():
    first, second = read_inputs([{**ROW, "age": "x"}, ROW], SPEC, LIMITS)
    assert isinstance(first, InvalidRequest)
    assert second == read()


def test_an_example_is_one_that_the_model_takes():
    cells = example_of(SPEC).cells
    assert read_input([bool(one) if at == 2 else one for at, one in enumerate(cells)], SPEC, LIMITS).cells == cells


def test_a_name_among_very_many_columns_is_refused_at_once():
    wide = spec_of(InputConfig(kind="table", columns={f"x{at}": {"missing": True} for at in range(10_000)}))
    values = [{f"y{at}" * 50: 1} for at in range(200)]
    assert all(isinstance(one, InvalidRequest) for one in read_inputs(values, wide, LIMITS))
    assert isinstance(read_input(np.zeros(10_000).tolist(), wide, LIMITS), TableRow)
