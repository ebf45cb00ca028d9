"""A body has as many values and keys as can be read in the time that a request may take from others."""

import asyncio
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.contract import body as body_module
from demur.serve.contract import wire
from demur.serve.contract.body import MOST_KEYS, MOST_VALUES, SMALL, _outside_texts, check_structure, read_apart
from demur.serve.contract.inputs import InvalidRequest, TooLarge
from demur.serve.web.inference_protocol.body import InferRequest
from demur.serve.web.openai import request as chat
from demur.serve.web.review.label_studio import MOST_ANNOTATIONS, rows_of_export
from demur.serve.web.review.review_wire import AnswerRequest

HOSTILE = {
    "lists in lists": b'{"model":"m","input":[' + b",".join([b"[" * 150 + b"]" * 150] * 8000) + b"]}",
    "empty lists": b'{"model":"m","input":[' + b"[]," * 1_000_001 + b"0]}",
    "numbers": b'{"model":"m","input":[' + b"0," * 1_000_001 + b"0]}",
    "keys": b'{"model":"m","input":{' + b",".join(b'"k%d":1' % at for at in range(60_000)) + b"}}",
    "keys nobody knows": b"{" + b",".join(b'"k%d":1' % at for at in range(60_000)) + b"}",
    "a batch of nothing": b'{"items":[' + b"{}," * 600_000 + b"{}]}",
    "a text that never ends": b":" * 50_001 + b'"' + b'\\"' * 2_000_000,
    "colons behind a text": b'"' + b'\\"' * 2_000_000 + b'"' + b":" * 50_001,
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


marks = st.sampled_from([b",", b":", b"[", b"{", b"]}", b"a", b" " * 9])
texts = st.lists(marks | st.sampled_from([rb"\\", rb"\"", rb"\u0022"])).map(lambda parts: b'"%s"' % b"".join(parts))


def counted_one_by_one(body):
    values, keys, inside, at = 1, 0, False, 0
    while at < len(body):
        here = body[at : at + 1]
        if inside and here == b"\\":
            at += 1
        elif here == b'"':
            inside = not inside
        elif not inside:
            values += here in (b",", b"[", b"{")
            keys += here == b":"
        at += 1
    return values, keys


@given(st.lists(marks | texts).map(b"".join), st.sampled_from([1, 7, 2**20]))
def test_what_stands_in_texts_is_no_structure(body, piece):
    """Compared with a reader that goes byte by byte, however long the pieces are in which a body is counted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body_module, "PIECE", piece)
        assert _outside_texts(body) == counted_one_by_one(body)


WRONG = {
    "labels": (wire.OutcomeRequest, b'{"label":[%s]}', b"1"),
    "labels of a review": (AnswerRequest, b'{"token":1,"label":[%s]}', b'""'),
    "messages": (chat.ChatRequest, b'{"model":"m","messages":[%s]}', b"{}"),
    "tensors": (InferRequest, b'{"inputs":[%s]}', b"{}"),
    "a shape": (InferRequest, b'{"inputs":[{"name":"a","datatype":"b","shape":[%s]}]}', b'"x"'),
    "outputs": (InferRequest, b'{"inputs":[],"outputs":[%s]}', b"{}"),
}


@pytest.mark.parametrize("what", WRONG)
def test_of_a_list_of_mistakes_the_first_is_told(what):
    kind, body, element = WRONG[what]
    with pytest.raises(InvalidRequest) as told:
        wire.parse(kind, body % b",".join([element] * 100_000))
    assert len(str(told.value)) < 500
    assert "and " not in str(told.value)


def lists_in(schema):
    """Every list that the schema of a body has, by its own schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "list" and schema["items_schema"]["type"] != "any":
            yield schema
        for part in schema.values():
            yield from lists_in(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from lists_in(part)


def bodies(kind=wire.Body):
    for one in kind.__subclasses__():
        yield one
        yield from bodies(one)


def test_every_list_of_every_body_stops_at_its_first_mistake():
    known = [(kind.__name__, one) for kind in bodies() for one in lists_in(kind.__pydantic_core_schema__)]
    assert {"OutcomeRequest", "AnswerRequest", "ChatRequest", "InferRequest"} <= {name for name, _ in known}
    assert not [name for name, one in known if not one.get("fail_fast")]


def test_a_tensor_has_few_parameters():
    parameters = b",".join(b'"p%d":[]' % at for at in range(10_000))
    with pytest.raises(InvalidRequest, match="at most 100 are taken"):
        wire.parse(InferRequest, b'{"inputs":[],"parameters":{%s}}' % parameters)


@pytest.mark.slow
def test_a_file_has_as_many_annotations_as_can_be_answered():
    rows = rows_of_export(json.dumps([{"annotations": [{}] * 9}] * (MOST_ANNOTATIONS // 10)).encode())
    assert len(rows) == MOST_ANNOTATIONS // 10
    with pytest.raises(TooLarge, match="tasks and annotations; at most"):
        rows_of_export(b'[{"annotations":[' + b"0," * MOST_ANNOTATIONS + b"0]}]")
    many = json.dumps([{"annotations": [0] * MOST_ANNOTATIONS}])
    assert rows_of_export(many)  # a file on this machine may be as large as it likes


def test_the_bounds_are_the_ones_that_are_told():
    check_structure(b"[" + b"0," * (MOST_VALUES - 3) + b"0]")
    with pytest.raises(TooLarge):
        check_structure(b"[" + b"0," * MOST_VALUES + b"0]")
    keys = b",".join(b'"k%d":1' % at for at in range(MOST_KEYS))
    check_structure(b"{" + keys + b"}")
    with pytest.raises(TooLarge):
        check_structure(b"{" + keys + b',"one":1}')


def test_of_many_mistakes_the_first_are_told():
    with pytest.raises(ValueError, match=r"and 979 more$") as told:
        wire.parse(wire.PredictRequest, json.dumps({f"k{at}": 1 for at in range(998)}).encode())
    assert len(str(told.value)) < 5000


def test_only_large_bodies_are_read_in_a_thread():
    async def where(size):
        return await read_apart(size, lambda: threading.current_thread().name)

    assert asyncio.run(where(SMALL)) == threading.current_thread().name
    assert asyncio.run(where(SMALL + 1)).startswith("bodies")


DOORS = {
    "/v1/predict": {"model": "digits", "input": "x"},
    "/v1/predict/batch": {"items": [{"model": "digits", "input": "x"}]},
    "/v1/chat/completions": {"model": "writer", "messages": [{"role": "user", "content": "x"}]},
    "/v1/predictions/0191f3a0-0000-7000-8000-000000000000/outcome": {"label": "x"},
    "/v2/models/digits/infer": {"inputs": [{"name": "input", "datatype": "BYTES", "shape": [1], "data": ["x"]}]},
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_reads_large_bodies_in_a_thread(client, monkeypatch, door):
    seen = []

    def look(body, **_):
        seen.append((len(body), threading.current_thread().name))

    for module in (wire, chat):
        monkeypatch.setattr(module, "check_structure", look)
    for length in (1, SMALL):
        client.post(door, content=json.dumps(DOORS[door]).replace('"x"', json.dumps("x" * length)))
    (small, here), (large, apart) = seen
    assert small < SMALL < large
    assert not here.startswith("bodies")
    assert apart.startswith("bodies")
