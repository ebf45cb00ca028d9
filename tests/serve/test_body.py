"""A body has as many values and keys as can be read in the time that a request may take from others."""

import json

import pytest

from serve import wire
from serve.body import MOST_KEYS, MOST_VALUES, check_structure
from serve.chat import request as chat
from serve.console.label_studio import rows_of_export
from serve.inputs import TooLarge

HOSTILE = {
    "lists in lists": b'{"model":"m","input":[' + b",".join([b"[" * 150 + b"]" * 150] * 8000) + b"]}",
    "empty lists": b'{"model":"m","input":[' + b"[]," * 1_000_001 + b"0]}",
    "numbers": b'{"model":"m","input":[' + b"0," * 1_000_001 + b"0]}",
    "keys": b'{"model":"m","input":{' + b",".join(b'"k%d":1' % at for at in range(60_000)) + b"}}",
    "keys nobody knows": b"{" + b",".join(b'"k%d":1' % at for at in range(60_000)) + b"}",
    "a batch of nothing": b'{"items":[' + b"{}," * 600_000 + b"{}]}",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_too_much_structure_is_refused_before_it_is_parsed(what):
    for read in (
        lambda body: wire.parse(wire.PredictRequest, body),
        lambda body: wire.parse(wire.BatchRequest, body),
        chat.read_json,
    ):
        with pytest.raises(TooLarge, match="at most"):
            read(HOSTILE[what])


def test_a_file_may_have_more_keys_and_no_more_values():
    with pytest.raises(TooLarge, match="values"):
        rows_of_export(HOSTILE["numbers"])


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"model": "m", "input": 'a, b: [c] {d} \\ " ,' * 60_000}).encode(),  # a text counts as one value
        json.dumps({"model": "m", "input": [[0.5] * 700] * 700}).encode(),
        json.dumps({"items": [{"model": "m", "input": [[0.5] * 28] * 28, "group": "g"}] * 1024}).encode(),
        b'"' * 100_001,
        b"\\" * 100_001,
    ],
)
def test_what_is_usual_passes(body):
    check_structure(body)


def test_the_bounds_are_the_ones_that_are_told():
    check_structure(b"[" + b"0," * (MOST_VALUES - 3) + b"0]")
    with pytest.raises(TooLarge):
        check_structure(b"[" + b"0," * MOST_VALUES + b"0]")
    keys = b",".join(b'"k%d":1' % at for at in range(MOST_KEYS))
    check_structure(b"{" + keys + b"}")
    with pytest.raises(TooLarge):
        check_structure(b"{" + keys + b',"one":1}')


def test_of_many_mistakes_the_first_are_told():
    with pytest.raises(ValueError, match=r"and 980 more$") as told:
        wire.parse(wire.PredictRequest, json.dumps({f"k{at}": 1 for at in range(998)}).encode())
    assert len(str(told.value)) < 5000
