"""Where demur is switched off, a request asks for no more than the bounds allow."""

import asyncio
import json

import httpx
import openai
import pytest
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import ValidationError

from demur.serve.config.file import ModelConfig
from demur.serve.web.native.app import gateway_app
from tests.serve.conftest import make_handler
from tests.serve.endpoint import delta, reply, running
from tests.serve.listening import listening
from tests.serve.web.openai.test_chat import MODEL, ScriptedHost, configured

BOUNDS = {"max_tokens": 100, "n": 2, "alternatives": 5, "characters": 300}


@pytest.fixture
def endpoint():
    with running() as server:
        yield server


@pytest.fixture
def passed(endpoint, database):
    """A client of two models that pass requests on: to an endpoint, and to an engine."""
    far = {"kind": "openai", "base_url": endpoint.url, "model": "far", "timeout_seconds": 20}
    chat = {"proxy": True, "bounds": BOUNDS}
    hasty = {"proxy": True, "bounds": {"seconds": 0.5}}
    fetches = {"proxy": True, "bounds": {"addresses": True}}
    config = configured(
        remote={"host": far, "chat": chat},
        near={"chat": chat},
        hasty={"host": far, "chat": hasty},
        open={"host": far, "chat": fetches},
    )
    handler = make_handler(config, dict.fromkeys(config.models, ScriptedHost()), database)
    with listening(gateway_app(handler, max_body_bytes=100_000)) as url, httpx.Client(base_url=url, timeout=60) as http:
        yield http


def ask(passed, model="remote", text="hi", **more):
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    return passed.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize("model", ["remote", "near"])
@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"max_tokens": 101}, "max_tokens"),
        ({"max_completion_tokens": 10**18}, "max_tokens"),
        ({"max_tokens": "101"}, "max_tokens"),
        ({"max_tokens": 1e3}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"maxOutputTokens": 5000}, "max_tokens"),
        ({"options": {"num_predict": 5000}}, "max_tokens"),
        ({"extra_body": [{"thinking": {"budget_tokens": 5000}}]}, "max_tokens"),
        ({"n": 3}, "n"),
        ({"best_of": 3}, "n"),
        ({"n": 2.5}, "n"),
        ({"top_logprobs": 6, "logprobs": True}, "alternatives"),
        ({"logprobs": 6}, "alternatives"),
        ({"prompt_logprobs": 6}, "alternatives"),
    ],
)
def test_what_is_above_a_bound_is_refused_by_its_name(passed, endpoint, model, more, key):
    refused = ask(passed, model, **more)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert f"(chat.bounds.{key})" in error["message"]
    assert error["type"] == "invalid_request_error"
    assert endpoint.asked == []


@pytest.mark.parametrize(
    "more",
    [
        {"messages": [{"role": "user", "content": "x" * 300}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x" * 300}]}]},
        {"tools": [{"type": "function", "function": {"name": "f", "description": "x" * 300}}]},
        {"guided_regex": "x" * 300},
        {"response_format": {"x" * 300: 1}},
    ],
)
def test_a_long_prompt_is_refused(passed, endpoint, more):
    refused = ask(passed, **more)
    assert refused.status_code == 413
    assert "at most 300 are passed on (chat.bounds.characters)" in refused.json()["error"]["message"]
    assert endpoint.asked == []


INSIDE = "http://169.254.169.254/"
"""An address that only the endpoint's own network knows."""

ADDRESSES = {
    "a picture": {"type": "image_url", "image_url": {"url": INSIDE}},
    "a picture, written shorter": {"type": "image_url", "image_url": INSIDE},
    "without a type": {"image_url": {"url": INSIDE}},
    "a film": {"type": "video_url", "video_url": {"url": INSIDE}},
    "a sound": {"type": "audio_url", "audio_url": {"url": "https://example.org/a.wav"}},
    "a file of the machine": {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
    "in capitals": {"type": "image_url", "image_url": {"URL": "HTTP://10.0.0.1/"}},
    "behind a blank": {"type": "image_url", "image_url": {"url": " data:image/png;base64,AAAA"}},
    "without a scheme": {"type": "image_url", "image_url": {"url": "//10.0.0.1/"}},
    "by another name": {"type": "image", "image": INSIDE},
    "by another name, in a list": {"type": "video", "video": [INSIDE]},
    "in a source": {"type": "image", "source": {"type": "url", "url": INSIDE}},
    "beside a text": {"type": "text", "text": "hi", "image_url": INSIDE},
    "in a text that is none": {"type": "text", "text": {"url": INSIDE}},
    "a file": {"type": "file", "file": {"fileUri": "gs://bucket/a.pdf"}},
}
"""Parts of a message that some endpoint or other reads as something to be fetched."""


@pytest.mark.parametrize("of", ADDRESSES)
def test_an_endpoint_is_not_sent_to_an_address(passed, endpoint, of):
    refused = ask(passed, text=[{"type": "text", "text": "what is it?"}, ADDRESSES[of]])
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert message.startswith("messages.0.content.1.")
    assert "addresses are not passed on" in message
    assert endpoint.asked == []


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "mcp", "server_url": INSIDE}]},
        {"extra_body": {"callback_uri": INSIDE}},
        {"messages": [{"role": "user", "content": "hi", "audio": {"url": INSIDE}}]},
        {"messages": [{"role": "user", "content": {"type": "image", "image": INSIDE}}]},
    ],
)
def test_nor_by_another_key(passed, endpoint, more):
    assert "addresses are not passed on" in ask(passed, **more).json()["error"]["message"]
    assert endpoint.asked == []


def test_an_address_that_is_only_mentioned_is_passed_on(passed, endpoint):
    shape = {"type": "object", "properties": {"url": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": shape}}
    refusal = {"type": "refusal", "refusal": f"not {INSIDE}"}
    for text in (INSIDE, [{"type": "text", "text": INSIDE}, refusal]):
        assert ask(passed, text=text, tools=[tool], metadata={"url": INSIDE}).status_code == 200
    assert len(endpoint.asked) == 2


def test_where_it_is_configured_addresses_are_passed_on(passed, endpoint):
    assert ask(passed, "open", text=[ADDRESSES["a picture"]]).status_code == 200
    assert endpoint.asked[0]["messages"][0]["content"] == [ADDRESSES["a picture"]]


def test_what_keeps_to_the_bounds_is_passed_on_as_it_came(passed, endpoint):
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1000}}
    shape = {"type": "json_schema", "json_schema": {"schema": {"properties": {"n": {"maximum": 99}}}}}
    more = {"max_tokens": 100, "n": 2, "top_logprobs": 5, "logprobs": True, "temperature": 9, "response_format": shape}
    content = [{"type": "text", "text": "hi"}, picture]
    assert ask(passed, text=content, **more).json() == reply("132")
    messages = [{"role": "user", "content": content}]
    assert endpoint.asked == [{"model": "far", "messages": messages, **more}]


def test_a_key_that_stands_twice_gets_past_no_bound(passed, endpoint):
    """The endpoint may read the first of two, and what was looked at is the last."""
    body = b'{"model": "far", "model": "remote", "max_tokens": 99999, "max_tokens": 5, "messages": []}'
    passed.post("/v1/chat/completions", content=body)
    assert endpoint.asked == [{"model": "far", "max_tokens": 5, "messages": []}]


def test_a_reply_has_a_limit_in_any_case(passed, endpoint):
    ask(passed)
    assert endpoint.asked[0]["max_tokens"] == 100
    ask(passed, max_tokens=None)
    assert endpoint.asked[1]["max_tokens"] == 100
    ask(passed, max_completion_tokens=7)
    assert "max_tokens" not in endpoint.asked[2]


def test_the_limit_goes_by_the_name_that_the_endpoint_takes(passed, endpoint):
    message = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    refused = JSONResponse({"error": {"message": message, "param": "max_tokens"}}, 400)
    endpoint.replies = [lambda body: refused if "max_tokens" in body else reply("132")]
    assert [ask(passed).status_code for _ in range(2)] == [200, 200]
    assert [body.get("max_completion_tokens") for body in endpoint.asked] == [None, 100, 100]
    assert ask(passed, max_tokens=5).status_code == 400  # the caller's own, and its answer


@pytest.mark.parametrize("size", [10, 200_000])
def test_another_refusal_comes_back_as_it_was(passed, endpoint, size):
    said = b"x" * size
    endpoint.replies = [Response(said, 400, media_type="text/odd")]
    told = ask(passed)
    assert (told.status_code, told.content, told.headers["content-type"].split(";")[0]) == (400, said, "text/odd")


def test_an_engine_is_bounded_as_well(database):
    host = ScriptedHost()
    config = configured(plain={"chat": {"proxy": True, "bounds": {"max_tokens": 20}}})
    handler = make_handler(config, dict.fromkeys(config.models, host), database)
    said = [{"role": "user", "content": "hi"}]
    with (
        listening(gateway_app(handler, max_body_bytes=100_000)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
    ):
        client.chat.completions.create(model="plain", messages=said)
        with pytest.raises(openai.BadRequestError, match=r"chat\.bounds\.n"):
            client.chat.completions.create(model="plain", messages=said, n=9)
    assert host.asked[0].max_tokens == 20  # not host.max_tokens, which is more


def test_a_stream_that_never_ends_is_ended(passed, endpoint):
    endpoint.replies = [endpoint.streams([], endless=True)]
    told = ask(passed, "hasty", stream=True)
    *_, last = [line for line in told.text.split("\n") if line]
    assert "chat.bounds.seconds" in json.loads(last.removeprefix("data: "))["error"]["message"]
    assert json.dumps(delta("more ")) in told.text


def test_a_reply_that_never_ends_is_cut_off(passed, endpoint):
    async def parts():
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    endpoint.replies = [lambda body: StreamingResponse(parts(), media_type="application/json")]
    with pytest.raises(httpx.RemoteProtocolError):
        ask(passed, "hasty")


def test_an_endpoint_that_gives_no_reply_in_time(passed, endpoint):
    endpoint.delay = 30
    told = ask(passed, "hasty")
    assert told.status_code == 503
    assert "chat.bounds.seconds" in told.json()["error"]["message"]


def test_bounds_are_for_what_is_passed_through():
    with pytest.raises(ValidationError, match="they are for `proxy: true`"):
        ModelConfig.model_validate({**MODEL, "chat": {"bounds": {"n": 2}}})
    plain = ModelConfig.model_validate({**MODEL, "chat": {"proxy": True}})
    assert plain.chat.passed_on.n == 8
    long = ModelConfig.model_validate({**MODEL, "host": {**MODEL["host"], "max_tokens": 9000}})
    assert long.chat.passed_on.longest_reply(long.host) == 9000
    for model in (plain, long):
        assert ModelConfig.model_validate(model.model_dump()) == model  # as it travels to the processes that serve
