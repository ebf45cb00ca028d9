"""Refusals in the words of real servers, and an endpoint that sends them."""

import asyncio
import logging

import pytest
from fastapi.responses import JSONResponse

from demur.serve.config.hosts.endpoint import OpenAIHost
from demur.serve.contract.engine import Asking, EngineFailed
from demur.serve.hosts.language.endpoint_client import _refusal
from demur.serve.hosts.language.engines import started
from demur.serve.hosts.language.refused_parameters import MOST_CHANGES, Refusal, change_for
from demur.serve.hosts.outages import EndpointAway
from tests.serve.endpoint import choice, choices, delta, reply, running, token

QUESTION = [{"role": "user", "content": "What is 47 + 85?"}]
SENT = {
    "model": "m",
    "messages": [],
    "max_tokens": 8,
    "temperature": 0,
    "top_p": 0.9,
    "seed": 1,
    "logprobs": True,
    "top_logprobs": 20,
}


def openai_error(message, param=None, code=None):
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


WORDINGS = [
    (  # OpenAI and Azure
        openai_error(
            "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is"
            " supported.",
            "temperature",
            "unsupported_value",
        ),
        "temperature",
        {},
    ),
    (
        openai_error(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"
            " instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
        "max_tokens",
        {"max_completion_tokens": None},
    ),
    (openai_error("Unsupported parameter: 'top_p' is not supported with this model.", "top_p"), "top_p", {}),
    (openai_error("You are not allowed to request logprobs from this model"), "logprobs", {}),
    (  # vLLM
        openai_error("Requested sample logprobs of 20, which is greater than max allowed: 5", code=400),
        "top_logprobs",
        {"top_logprobs": 5},
    ),
    (
        {"object": "error", "message": "top_logprobs must be at most 5", "type": "BadRequestError", "code": 400},
        "top_logprobs",
        {"top_logprobs": 5},
    ),
    (  # FastAPI in front of a model
        {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}]},
        "seed",
        {},
    ),
    (  # TGI
        {"error": "Input validation error: `temperature` must be strictly positive", "error_type": "validation"},
        "temperature",
        {},
    ),
    (  # llama.cpp
        {"error": {"code": 400, "message": "Unsupported param: logprobs", "type": "invalid_request_error"}},
        "logprobs",
        {},
    ),
    ({"error": {"message": 'json: unknown field "seed"', "type": "api_error"}}, "seed", {}),  # Ollama
    (  # LiteLLM
        openai_error(
            "litellm.UnsupportedParamsError: bedrock does not support parameters: ['logprobs', 'top_logprobs'], for"
            " model=some. To drop these, set `litellm.drop_params=True`",
            code="400",
        ),
        "logprobs",
        {},
    ),
    (openai_error("`temperature` is deprecated for this model."), "temperature", {}),
    (  # names in camel case, and an error that is a text
        {"code": "invalid-argument", "error": "Argument not supported on this model: topLogprobs"},
        "top_logprobs",
        {},
    ),
]


@pytest.mark.parametrize(("content", "name", "instead"), WORDINGS)
def test_the_refused_parameter_is_found(content, name, instead):
    change = change_for(_refusal(content), SENT)
    assert (change.name, dict(change.instead)) == (name, instead)
    assert name not in change.applied(SENT) or instead


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal(message="This model's maximum context length is 4096 tokens; you asked for 5000 in the messages."),
        Refusal(
            message="max_tokens is too large: 8. This model supports at most 4 completion tokens.", param="max_tokens"
        ),
        Refusal(message="messages: 'temperature' was flagged", param="messages"),
        Refusal(message="your text about the temperature is not allowed", code="content_policy_violation"),
        Refusal(message="frequency_penalty is not supported"),  # not ours
        Refusal(message="The model has a high temperature today"),  # refuses nothing
        Refusal(message=""),
        Refusal(message="x" * 10_000 + " temperature is not supported"),
    ],
)
def test_what_is_about_something_else_changes_nothing(refusal):
    assert change_for(refusal, SENT) is None


@pytest.fixture
def endpoint():
    with running() as server:
        yield server


def with_engine(endpoint, work, **settings):
    async def run():
        engine = await started(
            OpenAIHost(kind="openai", base_url=endpoint.url, model="m", **{"timeout_seconds": 20, **settings})
        )
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def reasoning(body):
    """A model that takes nothing but its defaults."""
    if "max_tokens" in body:
        return JSONResponse(WORDINGS[1][0], 400)
    if body.get("temperature", 1) != 1:
        return JSONResponse(WORDINGS[0][0], 400)
    for name in ("top_p", "seed", "stop", "stream_options"):
        if name in body:
            return JSONResponse(openai_error(f"Unsupported parameter: '{name}'", name, "unsupported_parameter"), 400)
    if body.get("logprobs"):
        return JSONResponse(WORDINGS[3][0], 403)
    if body.get("stream"):
        raise AssertionError
    return reply("132")


GREEDY = Asking(max_tokens=8, logprobs=True, top_logprobs=5, seed=3)


def test_a_reasoning_model_is_asked_as_it_wants_to_be(endpoint, caplog):
    endpoint.replies = [reasoning]

    async def twice(engine):
        first, second = [(await engine.generate(QUESTION, GREEDY))[0] for _ in range(2)]
        assert first.text == second.text == "132"
        assert first.left_out == second.left_out == {"temperature=0"}
        assert "refuses log-probabilities (You are not allowed" in second.no_logprobs
        assert "host.gives_logprobs: false" in second.no_logprobs
        return engine.remarks()

    with caplog.at_level(logging.WARNING):
        remarks = with_engine(endpoint, twice)
    assert len(endpoint.asked) == 6  # four refusals, and two requests that were taken
    assert endpoint.asked[-1] == {"model": "m", "messages": QUESTION, "max_completion_tokens": 8}
    assert [remark.split(" (")[0] for remark in remarks] == [
        f"{endpoint.url} refuses {name}" for name in ("max_tokens", "temperature=0", "seed", "logprobs")
    ]
    assert [remark for remark in remarks if f"{remark} from now on" not in caplog.text] == []


def test_another_value_of_a_refused_one_is_tried(endpoint):
    endpoint.replies = [reasoning]

    async def both(engine):
        [first] = await engine.generate(QUESTION, Asking(max_tokens=8))
        [second] = await engine.generate(QUESTION, Asking(max_tokens=8, temperature=1.0))
        return first.left_out, second.left_out

    assert with_engine(endpoint, both) == ({"temperature=0"}, frozenset())
    assert endpoint.asked[-1]["temperature"] == 1


def test_what_an_artifact_was_fitted_without_is_not_sent(endpoint):
    asking = Asking(max_tokens=8, without=frozenset({"temperature=0"}))
    [said] = with_engine(endpoint, lambda engine: engine.generate(QUESTION, asking))
    assert "temperature" not in endpoint.asked[0]
    assert said.left_out == {"temperature=0"}


def test_fewer_alternatives_are_asked_for_where_the_endpoint_lists_fewer(endpoint):
    top = [("yes", -0.1), ("no", -2.5)]
    listed = choices(choice("yes", [token("yes", -0.1, top)]))
    too_many = JSONResponse(WORDINGS[4][0], 400)
    endpoint.replies = [lambda body: too_many if body.get("top_logprobs", 0) > 5 else listed]

    async def both(engine):
        told = await engine.label_logprobs(QUESTION, ("yes", "no"), first_token=True)
        [said] = await engine.generate(QUESTION, Asking(max_tokens=8, logprobs=True, top_logprobs=2))
        return told.values.tolist(), said.logprobs.tolist()

    assert with_engine(endpoint, both) == ([-0.1, -2.5], [-0.1])
    assert [body["top_logprobs"] for body in endpoint.asked] == [20, 5, 2]


def test_a_text_that_ends_a_reply_ends_it_here_where_the_endpoint_will_not(endpoint):
    endpoint.replies = [
        lambda body: (
            JSONResponse(openai_error("stop is not supported", "stop"), 400)
            if "stop" in body
            else choices(choice("132\nand more", [token("132", -0.1), token("\n", -0.2), token("and more", -0.3)]))
        )
    ]
    asking = Asking(max_tokens=8, stop=("\n",), logprobs=True)
    [said] = with_engine(endpoint, lambda engine: engine.generate(QUESTION, asking))
    assert (said.text, said.logprobs.tolist()) == ("132", [-0.1])


def test_a_stream_adapts_as_well(endpoint):
    streamed = endpoint.streams([delta("132"), delta(finish="stop")])

    def said(body):
        return streamed(body) if "stream_options" not in body and "temperature" not in body else refused(body)

    def refused(body):
        name = "stream_options" if "stream_options" in body else "temperature"
        return JSONResponse(openai_error(f"Unknown parameter: '{name}'", name), 422)

    endpoint.replies = [said]

    async def pieces(engine):
        return [piece async for piece in engine.stream(QUESTION, Asking(max_tokens=8))]

    whole = with_engine(endpoint, pieces)[-1].whole
    assert (whole.text, whole.left_out) == ("132", {"temperature=0"})


def test_a_refusal_that_the_parameter_did_not_cause_is_not_remembered(endpoint):
    """It names a parameter that was sent, and leaving that out does not help."""
    endpoint.replies = [JSONResponse(openai_error("temperature 0 is not allowed for this text"), 400)]

    async def fails_then_works(engine):
        with pytest.raises(EngineFailed, match="refused the request: temperature 0 is not allowed"):
            await engine.generate(QUESTION, Asking(max_tokens=8))
        assert len(endpoint.asked) == 2
        assert engine.remarks() == []
        endpoint.replies = [reply("132")]
        return (await engine.generate(QUESTION, Asking(max_tokens=8)))[0]

    assert with_engine(endpoint, fails_then_works).left_out == frozenset()
    assert endpoint.asked[-1]["temperature"] == 0


def test_an_endpoint_that_refuses_everything_is_not_asked_for_ever(endpoint):
    def hostile(body):
        named = next((name for name in body if name not in ("model", "messages")), "messages")
        return JSONResponse(openai_error(f"Unsupported parameter: '{named}'", named), 400)

    endpoint.replies = [hostile]
    with pytest.raises(EngineFailed, match="refused the request"):
        with_engine(endpoint, lambda engine: engine.generate(QUESTION, GREEDY))
    assert len(endpoint.asked) <= MOST_CHANGES + 1
    assert all(
        {"max_tokens", "max_completion_tokens"} & set(body) for body in endpoint.asked
    )  # a limit always goes out


def test_our_key_is_in_no_word_about_a_refusal(endpoint, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-marked")
    said = JSONResponse(openai_error("sk-marked \x1b[31m may not set temperature: not supported", "temperature"), 400)
    endpoint.replies = [lambda body: said if "temperature" in body else reply("132")]

    async def remarks(engine):
        await engine.generate(QUESTION, Asking(max_tokens=8))
        return engine.remarks()

    [remark] = with_engine(endpoint, remarks)
    assert "refuses temperature=0 ((the key) \\x1b[31m may not set temperature: not supported)" in remark
    assert "sk-marked" not in caplog.text


@pytest.mark.parametrize("value", [None, "warm"])
def test_extra_body_may_hold_anything(endpoint, value):
    [said] = with_engine(
        endpoint, lambda engine: engine.generate(QUESTION, Asking(max_tokens=8)), extra_body={"temperature": value}
    )
    assert said.text == "132"


def test_what_extra_body_asks_for_is_never_left_out(endpoint):
    endpoint.replies = [lambda body: JSONResponse(WORDINGS[0][0], 400) if "temperature" in body else reply("132")]
    with pytest.raises(EngineFailed, match="refused the request: Unsupported value"):
        with_engine(
            endpoint,
            lambda engine: engine.generate(QUESTION, Asking(max_tokens=8)),
            extra_body={"temperature": 0.2},
        )
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize("status", [401, 404, 429, 500])
def test_other_statuses_are_never_read_as_a_refused_parameter(endpoint, status):
    endpoint.replies = [JSONResponse(WORDINGS[0][0], status)]
    with pytest.raises(EndpointAway):
        with_engine(endpoint, lambda engine: engine.generate(QUESTION, Asking(max_tokens=8)), retries=0)
    assert len(endpoint.asked) == 1
