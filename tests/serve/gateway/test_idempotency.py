"""An Idempotency-Key belongs to whoever sent it, and keys of earlier times still hold."""

import asyncio
import json
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.access.caller import Caller, Via
from demur.serve.config.access import Scope
from demur.serve.contract.inference_protocol.tensors import Tensor
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.gateway.idempotency import key_use
from demur.serve.web.inference_protocol.inference import infer
from demur.serve.web.inference_protocol.served import ServedModels
from demur.traffic.log import KeyReused


def caller(name, via=Via.KEY, key_id="a"):
    return Caller(name=name, scopes=frozenset({Scope.PREDICT}), via=via, key_id=key_id)


SHOP, BANK = caller("shop"), caller("bank")


def of_predict(handler, value, key, who):
    body = json.dumps({"model": "digits", "input": value}).encode()
    return asyncio.run(handler.predict(body, key, who))


def of_batch(handler, value, key, who):
    body = json.dumps({"items": [{"model": "digits", "input": value}]}).encode()
    (done,) = asyncio.run(handler.predict_batch(body, key, who))
    return done


def of_infer(handler, value, key, who):
    async def ask():
        models = ServedModels(handler)
        model = await models.model("digits")
        tensor = Tensor("input", "FP32", (1, 8, 8), np.array([value], dtype=np.float32))
        return await infer(handler, models, model, "", [tensor], {}, [], key, who)

    return asyncio.run(ask())


DOORS = {"predict": of_predict, "batch": of_batch, "infer": of_infer}


def id_of(done):
    return done.parameters["id"] if hasattr(done, "parameters") else str(done.record.id)


def other(value):
    return [[1 - pixel for pixel in row] for row in value]


@pytest.mark.parametrize("door", DOORS)
def test_the_same_key_of_two_callers_is_two_keys(handler, clear_digit, door):
    ask = DOORS[door]
    ours = ask(handler, clear_digit, "order-1", SHOP)
    theirs = ask(handler, clear_digit, "order-1", BANK)
    assert not theirs.replayed
    assert id_of(theirs) != id_of(ours)
    assert not ask(handler, other(clear_digit), "order-1", caller("third")).replayed  # nobody's 409
    again = ask(handler, clear_digit, "order-1", SHOP)
    assert again.replayed
    assert id_of(again) == id_of(ours)
    with pytest.raises(KeyReused, match="'order-1' was used before with another input"):
        ask(handler, other(clear_digit), "order-1", SHOP)


def test_a_name_is_who_somebody_is(handler, clear_digit):
    ours = of_predict(handler, clear_digit, "k", SHOP)
    renewed = replace(SHOP, key_id="b")  # a key of the same name, made in the place of an older one
    assert of_predict(handler, clear_digit, "k", renewed).record == ours.record
    assert not of_predict(handler, clear_digit, "k", caller("shop", via=Via.PROXY)).replayed
    assert not of_predict(handler, clear_digit, "k", caller("shop k")).replayed


def test_a_blank_in_a_name_makes_no_key_of_another(handler, clear_digit):
    of_predict(handler, clear_digit, "b", caller("a"))
    assert not of_predict(handler, clear_digit, "b", caller("a b")).replayed
    assert of_predict(handler, clear_digit, "b", caller("a")).replayed


def test_without_callers_keys_are_everybodys(handler, clear_digit):
    ours = of_predict(handler, clear_digit, "k", None)
    assert of_predict(handler, clear_digit, "k", None).record == ours.record
    with pytest.raises(KeyReused):
        of_predict(handler, other(clear_digit), "k", None)


@pytest.fixture
def old_key(handler, database, clear_digit):
    """A record under the key `old`, as a version of demur stored it in which keys had no owners."""
    done = of_predict(handler, clear_digit, "old", None)
    asked = ["predict", {"model": "digits", "input": clear_digit, "group": None}]
    digest = sha256(json.dumps(asked, sort_keys=True).encode()).digest()
    with database.transaction() as connection:
        connection.execute("update idempotency_keys set fingerprint = %s", (digest,))
    return done.record


@pytest.mark.parametrize("who", [None, SHOP])
def test_a_key_of_an_earlier_version_answers_a_retry(handler, old_key, clear_digit, who):
    again = of_predict(handler, clear_digit, "old", who)
    assert again.replayed
    assert again.record == old_key


def test_a_key_of_an_earlier_version_is_in_nobodys_way(handler, old_key, clear_digit):
    done = of_predict(handler, other(clear_digit), "old", SHOP)
    assert not done.replayed
    assert of_predict(handler, other(clear_digit), "old", SHOP).record == done.record
    assert of_predict(handler, clear_digit, "old", BANK).record == old_key
    with pytest.raises(KeyReused):
        of_predict(handler, other(clear_digit), "old", None)  # where nobody is asked, it is everybody's as before


def test_what_an_earlier_version_left_of_a_batch_is_gone_on_with(handler, database, clear_digit):
    items = [{"model": "digits", "input": value} for value in (clear_digit, other(clear_digit))]
    body = json.dumps({"items": items}).encode()
    first = asyncio.run(handler.predict_batch(body, "k", None))
    digest = sha256(json.dumps(["batch", items], sort_keys=True).encode()).digest()
    with database.transaction() as connection:
        connection.execute("update idempotency_keys set fingerprint = %s", (digest,))
        connection.execute("delete from idempotency_keys where position = 1")
    for replayed in ([True, False], [True, True]):
        done = asyncio.run(handler.predict_batch(body, "k", SHOP))
        assert [one.replayed for one in done] == replayed
        assert done[0].record == first[0].record


def nested(depth):
    return b'{"model":"digits","input":' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize("depth", [200, 260, 900, 990, 1020, 5000])
@pytest.mark.parametrize(
    "door", ["/v1/predict", "/v1/predict/batch", "/v1/chat/completions", "/v2/models/digits/infer"]
)
def test_nesting_under_a_key_is_the_callers_mistake(client, door, depth):
    deep, head = "[" * depth + "]" * depth, '"name": "input", "datatype": "FP32", "shape": [1]'
    bodies = {
        "/v1/predict": f'{{"model": "digits", "input": {deep}}}',
        "/v1/predict/batch": f'{{"items": [{{"model": "digits", "input": {deep}}}]}}',
        "/v1/chat/completions": f'{{"model": "digits", "messages": {deep}}}',
        "/v2/models/digits/infer": f'{{"inputs": [{{{head}, "data": {deep}}}]}}',
    }
    answer = client.post(door, content=bodies[door], headers={"Idempotency-Key": "k"})
    if answer.status_code == 200:  # a batch is told of each item
        assert [one["status"] for one in answer.json()["results"]] == [422]
    else:
        assert answer.status_code in (400, 422)
    assert answer.json().get("error", "x")


def test_what_cannot_be_compared_is_told(handler):
    with pytest.raises(InvalidRequest, match="Idempotency-Key: under a key a body may be nested 250 levels deep"):
        asyncio.run(handler.predict(nested(300), "k"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_a_digest_is_of_the_content_alone(one, another):
    def digest(value):
        return key_use("k", None, lambda: [value]).fingerprint

    def backwards(value):
        if isinstance(value, dict):
            return {key: backwards(value[key]) for key in reversed(value)}
        return [backwards(part) for part in value] if isinstance(value, list) else value

    assert digest(backwards(one)) == digest(one)
    if json.dumps(one, sort_keys=True) != json.dumps(another, sort_keys=True):
        assert digest(one) != digest(another)
