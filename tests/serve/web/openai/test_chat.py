"""The door that OpenAI's clients know: the official client against the real gateway, with a host that tests write."""

import asyncio
import json
import threading
import time
from dataclasses import dataclass, field

import httpx
import jsonschema
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.calibration_store.store import ArtifactNotFound
from demur.review import cases
from demur.serve.config.file import Config
from demur.serve.contract import wire
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.decided import ArtifactShare, DecidedRows
from demur.serve.contract.engine import EngineFailed, Piece
from demur.serve.contract.hosts import HostState
from demur.serve.contract.inputs import InputSpec, InvalidRequest
from demur.serve.contract.messages import text_of
from demur.serve.web.native.app import gateway_app
from demur.serve.web.openai import request as chat
from demur.serve.web.openai.errors import problem_of
from demur.traffic import log
from demur.traffic.database import DatabaseUnavailable
from demur.uncertainty.generation import Generation
from tests.serve.conftest import make_handler
from tests.serve.contract.reading.png_files import png
from tests.serve.contract.reading.png_files import url as picture_url
from tests.serve.listening import listening

COST = {"prompt_tokens": 12, "completion_tokens": 30, "calls": 2, "seconds": 0.25}
MODEL = {
    "task": {"kind": "generate"},
    "host": {"kind": "transformers", "checkpoint": "nowhere", "max_tokens": 64, "timeout_seconds": 5},
    "scores": ["improbability"],
    "confidence": {"score": "improbability"},
    "policy": {"kind": "threshold", "limit": 0.3},
    "chat": {"refusal": "A person will answer.", "abstention": "I would rather not say."},
}


def configured(**models):
    """Model `talker` as it is, and others that differ."""
    return Config.model_validate({"models": {"talker": MODEL, **{n: {**MODEL, **m} for n, m in models.items()}}})


def share_of(text):
    """The action hangs on the words: doubt is held, and so on."""
    action = "review" if "doubt" in text else "abstain" if "secret" in text else "answer"
    return ArtifactShare(
        rows=[0],
        decided=DecidedRows(
            artifact="talker-1",
            predictions=["right"],
            top_labels=[["right", "wrong"]],
            top_probabilities=[[1.0, 0.0]],
            label_confidences=[None],
            prediction_sets=[["right"] if action == "answer" else ["right", "wrong"]],
            scores={"improbability": [0.125]},
            confidence=[0.9375 if action == "answer" else 0.5],
            actions=[action],
            reasons=[f"because of {action}"],
            model_milliseconds=3.0,
            costs=[COST],
            replies=[{"text": text, "finish_reason": "length" if "long" in text else "stop"}],
        ),
    )


@dataclass
class ScriptedHost:
    """Says what it was asked, word by word. What it is to do besides is in the words."""

    artifact: str | None = "talker-1"
    asked: list = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    pictures: int = 0

    async def state(self):
        return HostState(spec=InputSpec(kind="chat", pictures=self.pictures), artifact=self.artifact, trouble="")

    async def decide(self, inputs, groups, draws):
        return [
            ArtifactShare(rows=[at], decided=(await self._decide(value)).decided) for at, value in enumerate(inputs)
        ]  # fmt: skip

    async def _decide(self, value):
        self.asked.append(value.messages)
        if self.artifact is None:
            raise ArtifactNotFound("no artifact is in force for model 'talker'")
        text = text_of(value.messages[-1])
        if "break" in text:
            raise RuntimeError("a bug in the engine")
        return share_of(text)

    async def stream(self, value, group, draw):
        if self.artifact is None:
            raise ArtifactNotFound("no artifact is in force for model 'talker'")
        yield ""
        try:
            for word in value.messages[-1]["content"].split():
                if word == "wait":
                    await asyncio.to_thread(self.go_on.wait, 20)
                if word == "hang":
                    await asyncio.sleep(60)
                if word == "break":
                    raise RuntimeError("a bug in the engine")
                yield word + " "
            yield await self._decide(value)
        except (asyncio.CancelledError, GeneratorExit):
            self.stopped.set()
            raise

    async def complete(self, messages, asking):
        if "fail" in messages[-1]["content"]:
            raise EngineFailed("the engine is dead; it will be started anew")
        self.asked.append(asking)
        return [
            Generation(text=f"{messages[-1]['content']} {at}", prompt_tokens=5, completion_tokens=2)
            for at in range(asking.n)
        ]

    async def pieces(self, messages, asking):
        whole = (await self.complete(messages, asking))[0]
        for word in whole.text.split():
            yield Piece(text=word + " ")
        yield Piece(text="", whole=whole)


TENTATIVE = {"chat": {**MODEL["chat"], "stream": "tentative"}}


@pytest.fixture
def host():
    return ScriptedHost()


@pytest.fixture
def url(host, database):
    config = configured(
        hasty=TENTATIVE,
        slow={**TENTATIVE, "host": {**MODEL["host"], "timeout_seconds": 0.3}},
        full={**TENTATIVE, "host": {**MODEL["host"], "batch": {"max_queued": 1}}},
        plain={"chat": {"proxy": True}},
        letters={"task": {"kind": "choice"}},
    )
    handler = make_handler(config, dict.fromkeys(config.models, host), database)
    with listening(gateway_app(handler, max_body_bytes=100_000)) as address:
        yield address


@pytest.fixture
def client(url):
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(client, text, model="talker", **more):
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}], **more)


def on_record(database):
    with database.transaction() as connection:
        ids = [row[0] for row in connection.execute("select id from records order by id").fetchall()]
        found = log.find(connection, ids)
        return [found[one] for one in ids]


def test_an_answer_comes_with_its_decision(client, host, database):
    raw = client.chat.completions.with_raw_response.create(
        model="talker",
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "lines"}]},
        ],
        user="ada",
        seed=7,
        top_p=0.5,
        metadata={"a": "b"},
        temperature=0,
        max_tokens=64,
    )
    done = raw.parse()
    (record,) = on_record(database)
    assert done.choices[0].message.content == "two\nlines"
    assert (done.choices[0].message.refusal, done.choices[0].finish_reason) == (None, "stop")
    assert done.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 12,
        "completion_tokens": 30,
        "total_tokens": 42,
    }
    assert done.demur == {
        "action": "answer",
        "abstained": False,
        "confidence": 0.9375,
        "scores": {"improbability": 0.125},
        "set": [],
        "reason": "because of answer",
        "id": str(record.id),
        "artifact": "talker-1",
        "cost": COST,
        "outcome": None,
    }
    assert raw.headers["x-demur-action"] == "answer"
    assert raw.headers["x-demur-confidence"] == "0.9375"
    assert raw.headers["x-demur-id"] == str(record.id)
    assert host.asked[0] == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "two\nlines"},
    )
    assert (record.prediction, record.reply["text"], record.cost) == ("right", "two\nlines", COST)


def test_a_reply_that_was_cut_off_says_so(client):
    assert ask(client, "long").choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("text", "action", "words"),
    [("doubt it", "review", "A person will answer."), ("my secret", "abstain", "I would rather not say.")],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_held_is_not_in_the_response(client, database, text, action, words, stream):
    raw = client.chat.completions.with_raw_response.create(
        model="talker", messages=[{"role": "user", "content": text}], stream=stream
    )
    assert raw.headers["x-demur-action"] == action
    told = raw.http_response.read().decode()
    assert text not in told
    assert words in told
    (record,) = on_record(database)
    assert record.reply["text"] == text
    with database.transaction() as connection:
        assert (cases.find(connection, record.id) is not None) == (action == "review")


def test_a_refusal_is_one_for_whoever_looks(client):
    done = ask(client, "doubt it")
    message = done.choices[0].message
    assert (message.content, message.refusal) == ("A person will answer.", "A person will answer.")
    assert done.choices[0].finish_reason == "content_filter"
    assert (done.demur["action"], done.demur["abstained"]) == ("review", True)


def test_a_stream_that_holds_begins_with_everything_known(client, database):
    text = "word " * 100
    raw = client.chat.completions.with_raw_response.create(
        model="talker",
        messages=[{"role": "user", "content": text}],
        stream=True,
        stream_options={"include_usage": True},
    )
    (record,) = on_record(database)
    assert raw.headers["x-demur-id"] == str(record.id)
    chunks = list(raw.parse())
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert not any("demur" in (c.model_extra or {}) for c in chunks[:-2])
    assert chunks[-2].demur["id"] == chunks[-1].demur["id"] == str(record.id)
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 42)
    assert [c.usage for c in chunks[:-1]] == [None] * (len(chunks) - 1)


def test_a_tentative_stream_says_so_flows_and_ends_with_the_decision(client, host, database):
    stream = ask(client, "one two wait three", "hasty", stream=True)
    assert stream.response.headers["x-demur-action"] == "tentative"
    assert "x-demur-id" not in stream.response.headers
    chunks = iter(stream)
    first = next(chunks)
    assert first.demur == {"tentative": True}
    assert [next(chunks).choices[0].delta.content for _ in range(2)] == ["one ", "two "]
    assert on_record(database) == []  # it flows before anything is decided
    host.go_on.set()
    rest = list(chunks)
    (record,) = on_record(database)
    assert [c.choices[0].delta.content for c in rest] == ["wait ", "three ", None]
    assert rest[-1].demur["id"] == str(record.id)
    assert rest[-1].id == first.id == f"chatcmpl-{record.id}"
    assert (rest[-1].choices[0].finish_reason, rest[-1].demur["action"]) == ("stop", "answer")
    assert record.reply["text"] == "one two wait three"


def test_a_tentative_stream_that_is_held_takes_its_words_back(client, database):
    chunks = list(ask(client, "I doubt it", "hasty", stream=True))
    last = chunks[-1]
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "I doubt it "
    assert last.choices[0].delta.refusal == "A person will answer."
    assert (last.choices[0].finish_reason, last.demur["action"]) == ("content_filter", "review")
    (record,) = on_record(database)
    with database.transaction() as connection:
        assert cases.case(connection, record.id).status == "waiting"


@pytest.mark.parametrize(
    ("model", "text", "reason"),
    [
        ("hasty", "one break", "the model failed on this input, and what is unknown is held"),
        ("slow", "one hang", "the model had not finished within 0.3 s, and what is unknown is held"),
    ],
)
def test_a_failure_in_the_middle_of_a_stream_is_held_and_on_record(client, host, database, model, text, reason):
    chunks = list(ask(client, text, model, stream=True))
    (record,) = on_record(database)
    assert (record.action, record.reason) == ("review", reason)
    assert (record.prediction, record.reply, record.cost, record.artifact) == (None, None, None, None)
    assert chunks[1].choices[0].delta.content == "one "
    assert (chunks[-1].demur["action"], chunks[-1].demur["reason"]) == ("review", reason)
    assert chunks[-1].choices[0].finish_reason == "content_filter"


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_fails_is_held(client, database, stream):
    raw = client.chat.completions.with_raw_response.create(
        model="talker", messages=[{"role": "user", "content": "break"}], stream=stream
    )
    assert raw.headers["x-demur-action"] == "review"
    assert "x-demur-confidence" not in raw.headers
    assert "A person will answer." in raw.http_response.read().decode()
    assert on_record(database)[0].action == "review"


def test_a_client_that_goes_away_stops_the_model_and_leaves_no_record(client, host, database):
    stream = ask(client, "one hang", "hasty", stream=True)
    chunks = iter(stream)
    next(chunks)
    assert next(chunks).choices[0].delta.content == "one "
    assert not host.stopped.is_set()
    stream.close()
    assert host.stopped.wait(10)
    assert on_record(database) == []


def test_a_stream_without_an_artifact_is_refused_at_once(client, host, database):
    host.artifact = None
    for model in ("talker", "hasty"):
        with pytest.raises(openai.InternalServerError, match="no artifact is in force") as refused:
            ask(client, "one", model, stream=True)
        assert refused.value.status_code == 503
        assert refused.value.response.headers["retry-after"] == "1"
        assert refused.value.body["code"] == "ArtifactNotFound"
        assert refused.value.body["type"] == "server_error"
    assert on_record(database) == []


def test_a_record_that_cannot_be_written_ends_a_tentative_stream_in_an_error(client, host, database, monkeypatch):
    def gone():
        raise DatabaseUnavailable("PostgreSQL at somewhere does not answer")

    chunks = iter(ask(client, "one wait", "hasty", stream=True))
    next(chunks)
    monkeypatch.setattr(database, "transaction", gone)
    host.go_on.set()
    with pytest.raises(openai.APIError, match="does not answer"):
        list(chunks)


def test_no_more_streams_are_open_than_may_wait(client, host, database):
    first = ask(client, "one wait two", "full", stream=True)
    with pytest.raises(openai.InternalServerError, match="1 streams of model full are open; try again"):
        ask(client, "three", "full", stream=True)
    host.go_on.set()
    assert list(first)[-1].demur["action"] == "answer"
    assert list(ask(client, "three", "full", stream=True))[-1].demur["action"] == "answer"
    assert len(on_record(database)) == 2


PICTURE = {"type": "image_url", "image_url": {"url": picture_url(png(8, 8))}}

REFUSED = {
    "temperature": ({"temperature": 0.7}, "temperature", "only 0 is taken"),
    "temperature that is not a number": ({"temperature": False}, "temperature", "only 0 is taken"),
    "several": ({"n": 2}, "n", "only 1 is taken"),
    "tools": ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools", r"only \[\] is taken"),
    "json": ({"response_format": {"type": "json_object"}}, "response_format", "is taken"),
    "stop": ({"stop": ["."]}, "stop", "is taken"),
    "logprobs": ({"logprobs": True}, "logprobs", "only false is taken"),
    "effort": ({"reasoning_effort": "low"}, "reasoning_effort", "it is not taken"),
    "a shorter reply": ({"max_tokens": 63}, "max_tokens", "63 is less than the 64"),
    "a shorter reply by its new name": ({"max_completion_tokens": 1}, "max_completion_tokens", "1 is less"),
    "an unknown key": ({"extra_body": {"colour": 1}}, "colour", "this key is not known"),
    "a picture": (
        {"messages": [{"role": "user", "content": [PICTURE]}]},
        "messages.0.content.0",
        "this model takes texts alone",
    ),
    "a sound": (
        {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "x"}}]}]},
        "messages.0.content",
        "only parts of the types 'text' and 'image_url' are taken, not 'input_audio'",
    ),
    "a picture past demur": (
        {"model": "plain", "messages": [{"role": "user", "content": [PICTURE]}]},
        "messages.0.content",
        "pictures are not passed on to this model while demur is switched off",
    ),
    "a tool's message": ({"messages": [{"role": "tool", "content": "7"}]}, "messages.0.role", "write one of: system"),
    "no message": ({"messages": []}, "messages", "at least 1"),
    "nothing to reply to": (
        {"messages": [{"role": "assistant", "content": "I said"}]},
        "messages",
        "end with what it is to reply to",
    ),
    "another kind of task": ({"model": "letters"}, "model", "has a choice task"),
}


def test_what_would_change_the_reply_is_refused_in_openais_words(client, host, database):
    for case, (changes, param, words) in REFUSED.items():
        request = {"model": "talker", "messages": [{"role": "user", "content": "one"}], **changes}
        with pytest.raises(openai.BadRequestError, match=words) as refused:
            client.chat.completions.create(**request)
        assert refused.value.body["param"] == param, case
        assert refused.value.body["type"] == "invalid_request_error", case
    assert host.asked == []
    assert on_record(database) == []


def test_other_refusals(client, url):
    with pytest.raises(openai.NotFoundError, match="there is no model 'nobody'") as refused:
        ask(client, "one", "nobody")
    assert refused.value.body["code"] == "UnknownModel"
    with pytest.raises(openai.APIStatusError, match="more than 100,000 bytes") as refused:
        ask(client, "x" * 100_000)
    assert refused.value.status_code == 413
    half = b'{"model": "talker", "messages": [{"role": "user", "content": "half a surrogate pair: \\ud800"}]}'
    for body in (b"{", b"[]", b'{"messages": []}', half):
        told = httpx.post(f"{url}/v1/chat/completions", content=body)
        assert (told.status_code, set(told.json()["error"])) == (400, {"message", "type", "param", "code"})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
message = st.fixed_dictionaries({"role": st.just("user") | anything, "content": anything}) | anything
nearly_right = st.fixed_dictionaries(
    {"model": st.just("talker"), "messages": st.lists(message, max_size=2) | anything},
    optional=dict.fromkeys((*chat.ONLY, *chat.WITHOUT_EFFECT, "stream", "stream_options", "max_tokens"), anything),
)


@pytest.mark.slow
@given(nearly_right | anything)
def test_whatever_is_asked_is_read_or_refused(content):
    try:
        read = chat.read_json(json.dumps(content).encode())
        chat.read_plain_request(read)
        chat.read_request(read).check_limits(64)
    except (InvalidRequest, wire.MalformedBody) as error:
        status, problem = problem_of(error)
        assert status == 400
        assert problem["error"]["message"]


def test_the_document_tells_the_truth_about_the_door(client, url):
    document = httpx.get(f"{url}/openapi.json").json()

    def check(content, path, method, status):
        schema = document["paths"][path][method]["responses"][str(status)]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(content)

    def answered(text, **more):
        body = {"model": "talker", "messages": [{"role": "user", "content": text}], **more}
        return httpx.post(f"{url}/v1/chat/completions", json=body)

    for text in ("one", "doubt it", "break"):
        check(answered(text).json(), "/v1/chat/completions", "post", 200)
    check(answered("one", temperature=1).json(), "/v1/chat/completions", "post", 400)
    check(httpx.get(f"{url}/v1/models").json(), "/v1/models", "get", 200)
    check(httpx.get(f"{url}/v1/models/talker").json(), "/v1/models/{model}", "get", 200)
    check(httpx.get(f"{url}/v1/models/nobody").json(), "/v1/models/{model}", "get", 404)
    request = jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/ChatRequest", "components": document["components"]}
    )
    parts = [{"type": "text", "text": "one"}]
    assert request.is_valid({"model": "talker", "messages": [{"role": "user", "content": parts}], "stream": True})
    assert not request.is_valid({"model": "talker", "messages": [{"role": "user", "content": [{"type": "audio"}]}]})
    assert not request.is_valid({"model": "talker", "messages": []})


def test_a_reply_may_go_back_as_it_came(client, host):
    first = ask(client, "hello").choices[0].message
    client.chat.completions.create(
        model="talker",
        messages=[{"role": "user", "content": "hello"}, first.model_dump(), {"role": "user", "content": "more"}],
    )
    assert host.asked[1][1] == {"role": "assistant", "content": "hello"}


def test_retries_under_a_key_get_what_was_stored(client, database):
    headers = {"Idempotency-Key": "k1"}
    first = ask(client, "one", extra_headers=headers)
    again = ask(client, "one", extra_headers=headers)
    assert again == first
    (chunk, *_, last) = ask(client, "one", stream=True, extra_headers=headers)
    assert chunk.id == first.id
    assert last.demur["id"] == first.demur["id"]
    assert len(on_record(database)) == 1
    with pytest.raises(openai.ConflictError):
        ask(client, "two", extra_headers=headers)
    (*_, streamed) = ask(client, "three", "hasty", stream=True, extra_headers={"Idempotency-Key": "k2"})
    (*_, again) = ask(client, "three", "hasty", stream=True, extra_headers={"Idempotency-Key": "k2"})
    assert streamed.demur["id"] == again.demur["id"]
    assert len(on_record(database)) == 2


def test_a_reply_whose_time_was_up_is_not_made_up(client, database):
    headers = {"Idempotency-Key": "k1"}
    ask(client, "one", extra_headers=headers)
    with database.transaction() as connection:
        connection.execute("delete from payloads")
    with pytest.raises(openai.BadRequestError, match="no longer kept"):
        ask(client, "one", extra_headers=headers)
    assert on_record(database)[0].reply is None


def test_the_same_model_at_the_native_route(url, database):
    with httpx.Client(base_url=url) as http:
        body = {"model": "talker", "input": {"messages": [{"role": "user", "content": "one"}]}, "group": "g"}
        done = http.post("/v1/predict", json=body).json()
        assert (done["prediction"], done["cost"], done["action"]) == ("one", COST, "answer")
        told = http.post(f"/v1/predictions/{done['id']}/outcome", json={"label": "one"})
        assert told.status_code == 422
        assert "it has: right, wrong" in told.json()["error"]["message"]
        assert http.post(f"/v1/predictions/{done['id']}/outcome", json={"label": "wrong"}).status_code == 201
        view = http.get(f"/v1/predictions/{done['id']}").json()
        assert (view["prediction"], view["outcome"]["label"]) == ("one", "wrong")


def test_groups_are_taken_beside_openais_keys(client, database):
    ask(client, "one", extra_body={"group": "ward 3"})
    assert on_record(database)[0].group == "ward 3"


def test_models_that_can_be_talked_to_are_listed(client):
    assert [model.id for model in client.models.list()] == ["talker", "hasty", "slow", "full", "plain"]
    assert client.models.retrieve("talker").owned_by == "demur"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("letters")


def test_past_demur_an_engine_answers_by_itself(client, host, database):
    done = ask(client, "hi", "plain", n=2, temperature=0.5, seed=3, stop="x", max_tokens=7)
    assert [choice.message.content for choice in done.choices] == ["hi 0", "hi 1"]
    assert done.usage.total_tokens == 9
    assert "demur" not in done.model_extra
    (asking,) = host.asked
    assert (asking.n, asking.temperature, asking.seed, asking.stop, asking.max_tokens) == (2, 0.5, 3, ("x",), 7)
    chunks = list(ask(client, "hi", "plain", stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "hi 0 "
    assert chunks[-1].usage.total_tokens == 7
    with pytest.raises(openai.BadRequestError, match="tools"):
        ask(client, "hi", "plain", tools=[{"type": "function", "function": {"name": "f"}}])
    with pytest.raises(openai.InternalServerError, match="the engine is dead"):
        ask(client, "fail", "plain")
    with pytest.raises(openai.APIError, match="the engine is dead"):
        list(ask(client, "fail", "plain", stream=True))
    assert on_record(database) == []


def test_past_demur_an_endpoint_answers_byte_for_byte(database, monkeypatch):
    seen = []

    async def upstream(scope, receive, send):
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        seen.append((scope["path"], dict(scope["headers"]), json.loads(body)))
        status = 429 if b"too much" in body else 200
        headers = [(b"content-type", b"text/odd"), (b"retry-after", b"9"), (b"x-inner", b"1")]
        headers.append((b"content-encoding", b"odd"))  # though it was not asked for
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for part in (b"data: 1\n\n", b"\xff\x00 whatever"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    monkeypatch.setenv("UPSTREAM_KEY", "secret")
    with listening(upstream) as address:
        far = {"kind": "openai", "base_url": f"{address}/v1", "model": "far", "api_key_env": "UPSTREAM_KEY"}
        config = configured(remote={"host": far, "chat": {"proxy": True}})
        handler = make_handler(config, dict.fromkeys(config.models, ScriptedHost()), database)
        with listening(gateway_app(handler, max_body_bytes=10_000)) as gateway, httpx.Client(base_url=gateway) as http:
            odd = {"model": "remote", "messages": "anything", "temperature": 9, "x": [1]}
            passed = http.post("/v1/chat/completions", json=odd, headers={"Authorization": "Bearer callers"})
            assert (passed.status_code, passed.content) == (200, b"data: 1\n\n\xff\x00 whatever")
            assert passed.headers["content-type"] == "text/odd"
            assert passed.headers["content-encoding"] == "odd"
            assert "x-inner" not in passed.headers
            full = http.post("/v1/chat/completions", json={"model": "remote", "too much": 1})
            assert (full.status_code, full.headers["retry-after"]) == (429, "9")
    path, headers, body = seen[0]
    assert (path, headers[b"authorization"]) == ("/v1/chat/completions", b"Bearer secret")
    assert body == {**odd, "model": "far", "max_tokens": 4096}
    handler = make_handler(config, dict.fromkeys(config.models, ScriptedHost()), database)
    with listening(gateway_app(handler, max_body_bytes=10_000)) as gateway:
        gone = httpx.post(f"{gateway}/v1/chat/completions", json=odd)
        assert gone.status_code == 503
        assert "does not answer" in gone.json()["error"]["message"]
    assert on_record(database) == []


def test_what_is_passed_through_is_well_without_an_artifact(database):
    far = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "far"}
    config = configured(remote={"host": far, "chat": {"proxy": True}})
    handler = make_handler(config, {"talker": ScriptedHost(), "remote": ScriptedHost(artifact=None)}, database)
    assert asyncio.run(handler.inquiries.health())["status"] == "ok"
    handler = make_handler(config, dict.fromkeys(config.models, ScriptedHost(artifact=None)), database)
    health = asyncio.run(handler.inquiries.health())
    assert {name: one["status"] for name, one in health["models"].items()} == {"talker": "no artifact", "remote": "ok"}


def test_what_streams_tentatively_cannot_go_on_to_another_model():
    with pytest.raises(ValueError, match=r"chat\.stream: .* write `hold`"):
        configured(first={**TENTATIVE, "escalate_to": "talker"})


def test_a_picture_goes_to_a_model_that_takes_some_and_on_record(client, host, database):
    host.pictures = 1
    content = [{"type": "text", "text": "What is this?"}, PICTURE]
    messages = [{"role": "user", "content": content}]
    done = client.chat.completions.create(model="talker", messages=messages)
    assert done.choices[0].message.content == "What is this?\n[a picture]"
    assert host.asked == [({"role": "user", "content": content},)]
    (record,) = on_record(database)
    with database.transaction() as connection:
        stored = connection.execute("select input from payloads where record_id = %s", [record.id]).fetchone()[0]
    assert stored == {"messages": messages}
    elsewhere = [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]}
    ]
    with pytest.raises(openai.BadRequestError, match="nothing is fetched from an address") as refused:
        client.chat.completions.create(model="talker", messages=elsewhere)
    assert refused.value.body["param"] == "messages.0.content.0.image_url.url"
    with pytest.raises(openai.APIStatusError, match="they have 2 pictures; at most 1 are taken"):
        client.chat.completions.create(model="talker", messages=[{"role": "user", "content": [PICTURE, PICTURE]}])
    assert len(on_record(database)) == 1


WAITING = {"extra_body": {"wait_seconds": 20}}


def told_meanwhile(database, label, text=None):
    """Somebody says what is true of the first record as soon as it is there."""

    def tell():
        while not (found := on_record(database)):
            time.sleep(0.02)
        with database.transaction() as connection:
            log.add_outcome(connection, found[0].id, label=label, source="review", author="ada", text=text)

    telling = threading.Thread(target=tell)
    telling.start()
    return telling


@pytest.mark.parametrize(
    ("label", "text", "content", "finish"),
    [
        ("wrong", "No doubt: 42.", "No doubt: 42.", "stop"),
        ("right", None, "doubt it", "stop"),
        ("wrong", None, "A person will answer.", "content_filter"),
    ],
)
def test_whoever_waits_gets_what_people_say(client, database, label, text, content, finish):
    telling = told_meanwhile(database, label, text)
    done = ask(client, "doubt it", **WAITING)
    telling.join()
    choice = done.choices[0]
    assert (choice.message.content, choice.finish_reason) == (content, finish)
    assert choice.message.refusal == (content if finish == "content_filter" else None)
    assert done.demur["action"] == "review"
    assert (done.demur["outcome"]["label"], done.demur["outcome"]["text"]) == (label, text)


def test_whoever_waits_with_a_stream_gets_the_corrected_text(client, database):
    telling = told_meanwhile(database, "wrong", "No doubt: 42. " * 40)
    chunks = list(ask(client, "doubt it", stream=True, **WAITING))
    telling.join()
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == "No doubt: 42. " * 40
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_retry_under_the_key_gets_what_was_said_since(client, database):
    headers = {"Idempotency-Key": "k1"}
    first = ask(client, "doubt it", extra_body={"wait_seconds": 0.1}, extra_headers=headers)
    assert (first.choices[0].message.content, first.demur["outcome"]) == ("A person will answer.", None)
    told_meanwhile(database, "wrong", "42.").join()
    plain = ask(client, "doubt it", extra_headers=headers)
    assert (plain.choices[0].message.content, plain.demur["outcome"]) == ("A person will answer.", None)
    again = ask(client, "doubt it", extra_body={"wait_seconds": 0}, extra_headers=headers)
    assert again.choices[0].message.content == "42."
    assert len(on_record(database)) == 1


def test_what_is_answered_or_withheld_is_not_waited_for(client):
    for text in ("one", "my secret"):
        assert ask(client, text, **WAITING).demur["outcome"] is None


def test_where_too_many_wait_the_words_come_at_once(client, monkeypatch):
    monkeypatch.setattr("demur.serve.gateway.outcome_watch.RequestLimit.enter", full)
    assert ask(client, "doubt it", **WAITING).choices[0].message.content == "A person will answer."


def test_where_the_database_does_not_say_the_words_come_as_they_are(client, database, monkeypatch):
    """The reply is on record: to lose it would make the caller ask again."""

    async def hangs(*_, **__):
        raise DatabaseUnavailable("it has not told what became of a prediction within 10 s")

    monkeypatch.setattr("demur.serve.gateway.inquiries.Inquiries.prediction", hangs)
    done = ask(client, "doubt it", **WAITING)
    assert (done.choices[0].message.content, done.demur["outcome"]) == ("A person will answer.", None)
    assert len(on_record(database)) == 1


def full(*_):
    raise Overloaded("full")


@pytest.mark.parametrize("seconds", [61, -1, "x", float("nan")])
def test_nobody_waits_for_ever(client, seconds):
    with pytest.raises((openai.BadRequestError, ValueError)):
        ask(client, "doubt it", extra_body={"wait_seconds": seconds})


def test_tokens_that_flow_do_not_wait(client):
    with pytest.raises(openai.BadRequestError, match="wait_seconds"):
        ask(client, "one", "hasty", stream=True, **WAITING)
