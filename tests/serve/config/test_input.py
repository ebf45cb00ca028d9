"""What an input is, as it is configured."""

import pytest
from pydantic import ValidationError

from demur.serve.config.input import ColumnConfig, InputConfig, check_complete


def test_short_forms():
    assert InputConfig.model_validate("text") == InputConfig(kind="text")
    told = InputConfig.model_validate({"kind": "table", "columns": {"a": "number", "b": ["x", "y"], "c": {"min": 0}}})
    assert told.columns == {
        "a": ColumnConfig(kind="number"),
        "b": ColumnConfig(kind="category", values=("x", "y")),
        "c": ColumnConfig(min=0),
    }


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"kind": "image", "channels": 3}, "an image has `channels`, 1 or 3, and the `height` and `width`"),
        ({"kind": "image", "channels": 2, "height": 4, "width": 4}, "an image has `channels`, 1 or 3"),
        ({"kind": "text", "width": 4}, "channels, height and width are for images"),
        ({"kind": "text", "columns": {"a": "number"}}, "columns: they are for a table"),
        ({"kind": "table", "columns": {"a": "nummer"}}, "Input should be"),
        ({"kind": "table", "columns": {"a": {"kind": "text", "min": 0}}}, "min: it is for a number"),
        ({"kind": "table", "columns": {"a": {"values": ["x"]}}}, "values: it is for a category"),
        ({"kind": "table", "columns": {"a": {"min": 2, "max": 1}}}, "min: it is 2, above max, 1"),
        ({"kind": "table", "columns": {"a": ["x", "x"]}}, "one of them is listed twice"),
        ({"kind": "table", "columns": {"a": {"kind": "category", "unknown": "keep"}}}, "no category is unknown"),
        (
            {"kind": "table", "columns": {"a": {"kind": "category", "values": ["x"], "unknown": "missing"}}},
            "can only count as missing with `missing: true`",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(told, why):
    with pytest.raises(ValidationError, match=why):
        InputConfig.model_validate(told)


@pytest.mark.parametrize(
    ("told", "why"), [("image", "an image has `channels`, 1 or 3"), ("table", "columns: name the columns of the table")]
)
def test_what_the_models_own_file_may_say_is_missing_where_there_is_none(told, why):
    with pytest.raises(ValueError, match=why):
        check_complete(InputConfig.model_validate(told))


def test_whole_numbers_have_bounds_like_others():
    assert ColumnConfig(kind="integer", min=0, max=3).is_number
