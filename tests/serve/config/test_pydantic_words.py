"""Nothing of pydantic's own words reaches a reader: every kind of error has a sentence, and every pattern too."""

import re
from typing import Any
from uuid import UUID

import pytest
from fastapi import FastAPI, Query, Response
from fastapi.exceptions import RequestValidationError
from fastapi.testclient import TestClient
from pydantic import TypeAdapter, ValidationError
from pydantic_core._pydantic_core import list_all_errors

from demur.serve.config.complaint import complaint
from demur.serve.config.file import Config
from demur.serve.config.pydantic_words import FORMS, OURS, SENTENCES, WANTED, sentence
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.wire import BatchRequest, OutcomeRequest, PredictRequest, parse, parse_item
from demur.serve.hosts.language.anchors import Ratings
from demur.serve.web.audit.monitors.pages import UndoAlarmRequest
from demur.serve.web.audit.reports.wire import AuditRequest
from demur.serve.web.inference_protocol.body import InferRequest
from demur.serve.web.openai.request import ChatRequest, PlainRequest, read_request
from demur.serve.web.problems import in_words
from demur.serve.web.review import review_wire
from demur.serve.web.review.review_wire import AnswerRequest
from tests.serve.config.test_broken_files import LIBRARY_WORDS

CALLERS = (
    *(
        PredictRequest,
        BatchRequest,
        OutcomeRequest,
        ChatRequest,
        PlainRequest,
        InferRequest,
        AuditRequest,
        UndoAlarmRequest,
    ),
    *(review_wire.NextRequest, review_wire.HeartbeatRequest, AnswerRequest, review_wire.TokenRequest),
    review_wire.WithdrawRequest,
)
ALL = [Config, Ratings, *CALLERS]


@pytest.mark.parametrize("kind", list_all_errors(), ids=lambda kind: kind["type"])
def test_every_kind_of_error_has_words(kind):
    if kind["type"] in OURS:
        assert sentence(kind["type"], {"error": ValueError("what we say")}) == "what we say"
        return
    assert (kind["type"] in WANTED) != (kind["type"] in SENTENCES)
    context: dict[str, Any] = dict(kind.get("example_context") or {})
    if "expected" in context or "expected_tags" in context:
        context = dict.fromkeys(context, "'a', 'b' or 'c'")
    said = sentence(kind["type"], context)
    assert said
    assert not LIBRARY_WORDS.search(said), said
    assert "{" not in said
    assert said != "this cannot be taken here" or kind["type"] in SENTENCES


def test_there_are_words_for_nothing_else():
    known = {kind["type"] for kind in list_all_errors()} | {"path_type"}  # which pydantic has beside that list
    assert set(WANTED) | set(SENTENCES) <= known


def patterns(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        own = {schema["pattern"]} if isinstance(schema.get("pattern"), str) else set()
        return own.union(*(patterns(one) for one in schema.values()), schema.get("patternProperties", {}))
    return set().union(*(patterns(one) for one in schema)) if isinstance(schema, list) else set()


def test_every_pattern_has_words():
    found = {pattern for model in ALL for pattern in patterns(model.model_json_schema())}
    assert len(found) >= 9
    assert found <= set(FORMS)
    assert not any(LIBRARY_WORDS.search(words) for words in FORMS.values())


ODD: tuple[Any, ...] = (
    None,
    True,
    5,
    -1,
    1.5,
    1e300,
    "",
    "x",
    "a\0b",
    [],
    [5],
    [""],
    {},
    {"a": 1},
    {"kind": "x"},
    "x" * 20_000,
)


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__)
def test_whatever_is_sent_is_refused_in_words(model):
    """Every field of every body and section, filled with everything that does not belong there."""
    kinds = set()
    for name, field in model.model_fields.items():
        for value in ODD:
            sent = {field.alias or name: value, "gruop": 1}
            with pytest.raises(ValidationError) as refused:
                model.model_validate(sent)
            kinds |= {one["type"] for one in refused.value.errors()}
            said = re.sub(r"'[^']*'", "", complaint(refused.value, sent))
            assert not LIBRARY_WORDS.search(said), said
            assert "[" not in said, said
    assert kinds <= set(WANTED) | set(SENTENCES) | set(OURS)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (AnswerRequest, b'{"token": 1, "label": 5}', "label: a text or a list is wanted here"),
        (AnswerRequest, b'{"token": 1, "label": ""}', "label: write at least 1 character"),
        (
            AnswerRequest,
            b'{"token": 1, "label": ["", 5]}',
            "label.0: write at least 1 character",
        ),
        (AnswerRequest, b'{"token": "1", "label": null}', "token: a whole number is wanted here"),
        (AnswerRequest, b'{"label": null}', "token: this key is missing"),
        (
            AnswerRequest,
            b'{"token": 1, "label": "a", "coment": "x"}',
            "coment: this key is not known; did you mean `comment`?",
        ),
        (PredictRequest, b'{"model": 5}', "model: a text is wanted here"),
        (PredictRequest, b'{"model": "m"}', "input: this key is missing"),
        (PredictRequest, b"[1]", "an object of keys and values is wanted here"),
        (
            PredictRequest,
            b'{"model": "m", "input": NaN, "group": "a\\tb"}',
            "group: control characters, such as line breaks",
        ),
        (
            PredictRequest,
            b'{"model": "m", "input": 1, "colour": 1}',
            "colour: this key is not known; known here are: model, input, output, group, cluster, review",
        ),
        (OutcomeRequest, b'{"label": {}}', "label: a text or a list is wanted here"),
        (
            InferRequest,
            b'{"inputs": [{"name": "a", "datatype": "FP32", "shape": [1.5]}]}',
            "inputs.0.shape.0: a whole number",
        ),
        (
            InferRequest,
            b'{"inputs": [], "parameters": {"group": []}}',
            "parameters.group: true or false or a whole number or",
        ),
    ],
)
def test_bodies(kind, body, said):
    with pytest.raises(InvalidRequest) as refused:
        parse(kind, body)
    assert str(refused.value).startswith(said)
    assert not LIBRARY_WORDS.search(str(refused.value))


def test_an_item_of_a_batch_and_a_chat():
    with pytest.raises(InvalidRequest, match=r"^model: this key is missing$"):
        parse_item({})
    with pytest.raises(InvalidRequest, match=r"^messages\.0\.role: write one of: system, developer, user, assistant$"):
        read_request({"model": "m", "messages": [{"role": "tool", "content": "x"}]})


def test_what_was_sent_is_not_repeated():
    secret = "s3cr3t" * 3
    for kind, sent in (
        (PredictRequest, {"model": [secret]}),
        (AnswerRequest, {"token": secret, "label": {"a": secret}}),
    ):
        with pytest.raises(ValidationError) as refused:
            kind.model_validate(sent)
        assert secret not in complaint(refused.value, sent)


def test_of_very_many_mistakes_in_a_list_the_first_one_is_told():
    sent = {"token": 1, "label": [5] * 1000}
    with pytest.raises(ValidationError) as refused:
        AnswerRequest.model_validate(sent)
    assert complaint(refused.value, sent) == "label.0: a text is wanted here"


def test_of_very_many_mistakes_the_first_ones_are_told():
    sent = {"token": 1, **{f"key{at}": 1 for at in range(1000)}}
    with pytest.raises(ValidationError) as refused:
        AnswerRequest.model_validate(sent)
    said = complaint(refused.value, sent)
    assert said.count("key") < 100
    assert said.endswith("; and 981 more")


def test_parameters_of_addresses():
    app = FastAPI()
    asked: list[str] = []

    @app.exception_handler(RequestValidationError)
    async def tell(_request, error):
        asked.append(str(in_words(error)))
        return Response(status_code=422)

    @app.get("/{id}")
    async def look(id: UUID, wait: float = Query(0, ge=0, le=60), deep: bool = False) -> None: ...

    client = TestClient(app, raise_server_exceptions=False)
    for address in ("/x", "/01939f2e-5b7a-7cc3-98c4-dc0c0c07398f?wait=61&deep=maybe"):
        client.get(address)
    assert asked == [
        "id: an id such as 01939f2e-5b7a-7cc3-98c4-dc0c0c07398f is wanted here",
        "wait: write at most 60; deep: true or false is wanted here",
    ]


@pytest.mark.parametrize(
    ("kind", "sent", "said"),
    [
        (list[int] | None, "x", "a list is wanted here"),
        (dict[str, int] | str, 5, "an object of keys and values or a text"),
    ],
)
def test_a_choice_between_types_is_one_sentence(kind, sent, said):
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(sent)
    assert complaint(refused.value, sent).startswith(said)


def test_numbers_are_written_as_people_write_them():
    told = {"le": 1e-6, "ge": 65535.0}
    assert sentence("less_than_equal", told) == "write at most 0.000001"
    assert sentence("greater_than_equal", told) == "write at least 65,535"
