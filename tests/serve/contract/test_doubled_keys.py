"""Bodies in which a key is there twice, and whole numbers that no record could hold."""

import json

import orjson
import pytest

from demur.serve.contract import wire
from demur.serve.contract.body import check_whole_numbers
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.inference_protocol.elements import json_in

TWICE = '{"model": "m", "output": {"probabilities": {"spam": 0.1, "spam": 0.9, "ham": 0.1}}}'


@pytest.mark.parametrize(
    "body",
    [
        TWICE,
        TWICE.replace("probabilities", "candidates"),
        TWICE.replace('"spam": 0.1', '"sp\\u0061m": 0.1'),
        TWICE.replace('"model": "m"', '"model": "m", "model": "n"'),
        TWICE.replace('"spam": 0.1, ', "").replace('"output"', '"output": {}, "output"'),
    ],
)
def test_a_key_that_is_there_twice_is_refused(body):
    """Which of its values is meant nobody can say."""
    with pytest.raises(InvalidRequest, match=r"the key '(spam|model|output)' is twice in an object"):
        wire.parse(wire.PredictRequest, body.encode())
    with pytest.raises(InvalidRequest, match="is twice in an object"):
        wire.parse(wire.BatchRequest, f'{{"items": [{{"model": "m", "input": "a"}}, {body}]}}'.encode())


def test_a_truth_that_is_told_twice_in_one_object_is_refused():
    with pytest.raises(InvalidRequest, match="the key 'label' is twice in an object"):
        wire.parse(wire.OutcomeRequest, b'{"label": "spam", "label": "ham"}')
    with pytest.raises(InvalidRequest, match="the key 'id' is twice in an object"):
        wire.parse(wire.OutcomesRequest, b'{"items": [{"id": "a", "id": "b", "label": "ham"}]}')
    wire.parse(wire.OutcomeRequest, b'{"label": "a: b", "source": "x"}')


@pytest.mark.parametrize(
    "more",
    [
        {"input": "a: b, c: d"},
        {"input": {"a:b": [1, {"c": "d:e"}], "f": []}},
        {"input": [0.5, 1.5], "group": "x:y"},
        {"review": {"priority": 1}, "cluster": ":"},
    ],
)
def test_colons_elsewhere_are_no_second_keys(more):
    output = {"probabilities": {"a:b": 0.5, "c": 0.5}, "embedding": [0.5, 1], "scores": {"risk": None}}
    one = {"model": "m", "output": output, **more}
    for body in (orjson.dumps(one), json.dumps(one, indent=2).encode(), json.dumps(one).replace(":", ": ").encode()):
        wire.parse(wire.PredictRequest, body)
    escaped = json.dumps(one).replace("a:b", "a\\u003ab").encode()
    assert wire.parse(wire.PredictRequest, escaped).output["probabilities"]["a:b"] == 0.5
    batch = {"items": [one, {"model": "m", "output": {"probabilities": [0.5, 0.5]}}, one]}
    wire.parse(wire.BatchRequest, orjson.dumps(batch))


LONG = int("9" * 400)


@pytest.mark.parametrize("value", [LONG, -LONG])
@pytest.mark.parametrize(
    ("made", "place"),
    [
        (lambda value: {"model": "m", "input": value}, "input"),
        (lambda value: {"model": "m", "input": {"age": [1, value]}}, "input.age.1"),
        (lambda value: {"model": "m", "output": {"scores": {"risk": value}}}, "output.scores.risk"),
    ],
)
def test_a_number_that_no_record_could_hold_is_refused_with_its_place(made, value, place):
    with pytest.raises(InvalidRequest, match=rf"^{place}: a whole number of 400 digits is not taken"):
        wire.parse(wire.PredictRequest, json.dumps(made(value)).encode())
    with pytest.raises(InvalidRequest, match=rf"^items.0.{place}: a whole number of 400 digits"):
        wire.parse(wire.BatchRequest, json.dumps({"items": [made(value)]}).encode())


def test_numbers_that_fit_are_taken():
    for value in (0, -(2**63), 2**64 - 1, [True, None, "9" * 400, {"a": 1.5}]):
        check_whole_numbers(value)
    for value in (2**64, -(2**63) - 1, [[2**70]], {"a": {"b": 2**64}}):
        with pytest.raises(InvalidRequest):
            check_whole_numbers(value)


def test_a_tensor_of_json_brings_no_such_number_either():
    assert json_in(b'{"scores": {"risk": 1}}', "inputs.0: row 0") == {"scores": {"risk": 1}}
    with pytest.raises(InvalidRequest, match=r"^inputs.0: row 0: scores.risk: a whole number of 400 digits"):
        json_in(json.dumps({"scores": {"risk": LONG}}).encode(), "inputs.0: row 0")
    for wrong in (b"{", b"NaN", b'"\\ud800"'):
        with pytest.raises(InvalidRequest, match=r"^inputs.0: row 0 is not JSON: "):
            json_in(wrong, "inputs.0: row 0")


@pytest.mark.parametrize("depth", [300, 1000])
def test_a_body_that_is_nested_deeply_is_no_failure_of_ours(depth):
    """JSON that one library reads is more than another writes."""
    deep = "[" * depth + "]" * depth
    body = f'{{"model": "m", "output": {{"probabilities": {{"spam": 0.1, "ham": 0.9}}}}, "input": {deep}}}'
    assert wire.parse(wire.PredictRequest, body.encode()).model == "m"
    assert len(wire.parse(wire.BatchRequest, f'{{"items": [{body}]}}'.encode()).items) == 1
    with pytest.raises(InvalidRequest, match="the key 'spam' is twice in an object"):
        wire.parse(wire.PredictRequest, body.replace('"ham"', '"spam"').encode())
