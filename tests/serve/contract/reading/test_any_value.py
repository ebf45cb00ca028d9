"""Bytes, pairs of texts, and values that a model reads by itself."""

import pytest

from demur.serve.contract.inputs import InputLimits, InputSpec, InvalidRequest, JsonInput, TextPair, TooLarge
from demur.serve.contract.reading.inputs import read_input

LIMITS = InputLimits(text_characters=10)


def read(kind, value):
    return read_input(value, InputSpec(kind=kind), LIMITS)


def test_bytes_come_in_base64_or_as_a_url():
    assert read("bytes", "AAE=") == read("bytes", "data:application/octet-stream;base64,AAE=") == b"\0\1"


@pytest.mark.parametrize("value", ["A", "AAE=\n", "AAE", "äö", "data:text/plain,abc", 3, None])
def test_what_is_no_base64_is_refused(value):
    with pytest.raises(InvalidRequest, match=r"^input: "):
        read("bytes", value)


def test_two_texts_come_as_an_object_or_as_an_array():
    assert read("text_pair", {"text": "a", "text_pair": "b"}) == TextPair(text="a", text_pair="b")
    assert read("text_pair", ["a", "b"]) == TextPair(text="a", text_pair="b")


@pytest.mark.parametrize(
    "value", ["a", ["a"], {"text": "a"}, {"text": "a", "text_pair": 1}, {"text": "", "text_pair": "b"}]
)
def test_what_is_no_pair_is_refused(value):
    with pytest.raises(InvalidRequest):
        read("text_pair", value)


def test_each_text_of_a_pair_has_a_limit():
    with pytest.raises(TooLarge, match=r"input\.text_pair: the text has 11"):
        read("text_pair", ["a", "b" * 11])


def test_any_json_reaches_the_model_as_it_came():
    assert read("json", {"a": [1]}) == JsonInput({"a": [1]})
    with pytest.raises(InvalidRequest, match="not null"):
        read("json", None)
