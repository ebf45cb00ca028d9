"""What pydantic finds wrong, in plain words: one sentence for each of its kinds of error."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

WANTED: dict[str, str] = {
    "string_type": "a text",
    "string_unicode": "a text in UTF-8",
    "string_not_ascii": "a text of plain ASCII letters",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    "int_parsing_size": "a whole number of fewer digits",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(
        ("list_type", "tuple_type", "set_type", "frozen_set_type", "deque_type", "iterable_type", "iteration_error"),
        "a list",
    ),
    **dict.fromkeys(
        (
            *("dict_type", "mapping_type", "frozen_dict_type", "ordered_dict_type", "counter_type"),
            *("model_type", "model_attributes_type", "dataclass_type", "dataclass_exact_type", "named_tuple_type"),
            *("arguments_type", "is_instance_of", "is_subclass_of"),
        ),
        "an object of keys and values",
    ),
    **dict.fromkeys(("bytes_type", "bytes_invalid_encoding"), "bytes"),
    **dict.fromkeys(
        ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact"),
        "a date such as 2026-11-21",
    ),
    "date_past": "a date in the past",
    "date_future": "a date in the future",
    **dict.fromkeys(("time_type", "time_parsing"), "a time of day such as 08:30"),
    **dict.fromkeys(
        ("datetime_type", "datetime_parsing", "datetime_object_invalid", "datetime_from_date_parsing"),
        "a time such as 2026-11-21T08:30:00Z",
    ),
    "datetime_past": "a time in the past",
    "datetime_future": "a time in the future",
    "timezone_naive": "a time without a zone",
    **dict.fromkeys(("timezone_aware", "timezone_offset"), "a time with its zone, such as 2026-11-21T08:30:00Z"),
    **dict.fromkeys(("time_delta_type", "time_delta_parsing"), "a length of time"),
    **dict.fromkeys(
        ("url_type", "url_parsing", "url_syntax_violation", "url_scheme"), "an address such as https://example.org"
    ),
    **dict.fromkeys(
        ("uuid_type", "uuid_parsing", "uuid_version"), "an id such as 01939f2e-5b7a-7cc3-98c4-dc0c0c07398f"
    ),
    **dict.fromkeys(
        (
            *("decimal_type", "decimal_parsing", "decimal_max_digits", "decimal_max_places", "decimal_whole_digits"),
            *("fraction_type", "fraction_parsing", "complex_type", "complex_str_parsing"),
        ),
        "a number",
    ),
    **dict.fromkeys(("none_required", "missing_sentinel_error", "ellipsis_error"), "nothing"),
    "json_type": "a text of JSON",
    "path_type": "the name of a file or folder",
}
"""What is wanted in the place of something of another type."""

SENTENCES: dict[str, str] = {
    "missing": "this key is missing",
    "extra_forbidden": "this key is not known",
    "invalid_key": "a key is a text; put it in quotes",
    "greater_than": "write more than {gt}",
    "greater_than_equal": "write at least {ge}",
    "less_than": "write less than {lt}",
    "less_than_equal": "write at most {le}",
    "multiple_of": "write a multiple of {multiple_of}",
    "too_short": "at least {min_length} {entries} wanted here, and there are {actual_length}",
    "too_long": "at most {max_length} {entries} taken here, and there are {actual_length}",
    "string_too_short": "write at least {min_length} {characters}",
    "string_too_long": "write at most {max_length} {characters}",
    "bytes_too_short": "at least {min_length} bytes are wanted here",
    "bytes_too_long": "at most {max_length} bytes are taken here",
    "url_too_long": "write at most {max_length} {characters}",
    "string_pattern_mismatch": "{form}",
    "literal_error": "write one of: {choices}",
    "enum": "write one of: {choices}",
    "union_tag_invalid": "write one of: {choices}",
    "union_tag_not_found": "this key is missing; it says which kind is meant",
    "set_item_not_hashable": "a list of texts or numbers is wanted here",
    "json_invalid": "this is not JSON: {error}",
    "recursion_loop": "this holds itself",
    "recursion_depth_exceeded": "too many lists or objects lie within each other here",
    "unexpected_keyword_argument": "this key is not known",
    **dict.fromkeys(
        ("missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument"), "this key is missing"
    ),
    **dict.fromkeys(
        (
            *("no_such_attribute", "get_attribute_error", "needs_python_object", "callable_type"),
            *("default_factory_not_called", "unexpected_positional_argument", "multiple_argument_values"),
        ),
        "this cannot be taken here",
    ),
    **dict.fromkeys(("frozen_field", "frozen_instance"), "this cannot be changed"),
}
"""What is wrong, for everything else."""

LIMITS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "multiple_of")
"""About a number, which is worth repeating."""

OURS = ("value_error", "assertion_error")
"""Raised by ourselves: the message is a sentence already."""

FORMS: dict[str, str] = {}
"""What a text must look like, in words, by its pattern."""


def written_as(pattern: str, words: str) -> Any:
    """Return a field for texts of this pattern. Messages give the words in place of the pattern, which has one wording
    wherever it stands."""
    assert FORMS.setdefault(pattern, words) == words, f"{pattern} has two wordings"
    return Field(pattern=pattern)


PythonName = Annotated[str, written_as(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", "write it as package.module:name")]
"""The name of a function or class of the user's own."""


def sentence(kind: str, context: Mapping[str, Any]) -> str:
    """What is wrong, by pydantic's name for it and what it tells beside."""
    if kind in OURS:
        return str(context.get("error", ""))
    if kind in WANTED:
        return f"{WANTED[kind]} is wanted here"
    least = context.get("min_length", context.get("max_length"))
    return SENTENCES.get(kind, "this cannot be taken here").format_map(
        {
            **{name: _plain(value) for name, value in context.items()},
            "actual_length": _plain(context.get("actual_length", "more")),
            "entries": "entry is" if least == 1 else "entries are",
            "characters": "character" if least == 1 else "characters",
            "choices": ", ".join(choices(context)),
            "form": FORMS.get(str(context.get("pattern")), "this is not written as it must be"),
        }
    )


def choices(context: Mapping[str, Any]) -> list[str]:
    """What may be written, where it is one of a few things: pydantic lists them as `'a', 'b' or 'c'`."""
    listed = str(context.get("expected_tags", context.get("expected", "")))
    *most, last = listed.split(", ")
    return [one.strip("'") for one in (*most, *last.rsplit(" or ", 1))]


def _plain(value: Any) -> Any:
    """Numbers as people write them."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, float) and not (value.is_integer() or abs(value) > 1e-9):
        return f"{value:g}"
    return f"{Decimal(repr(value)).normalize():,f}" if abs(value) < 1e15 else f"{value:g}"
