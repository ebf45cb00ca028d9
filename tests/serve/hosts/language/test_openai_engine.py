"""Against a real server on this machine, which does what each test tells it to."""

import asyncio
import json
import socket
from types import SimpleNamespace

import numpy as np
import pytest
from fastapi.responses import JSONResponse, Response

from demur.serve.config.hosts.endpoint import OpenAIHost
from demur.serve.contract.engine import Asking, CannotGive, EngineFailed, LabelsUntold
from demur.serve.hosts.language.engines import started
from demur.serve.hosts.outages import EndpointAway
from tests.serve.contract.reading.png_files import png, url
from tests.serve.endpoint import choice, choices, delta, refusal, reply, running, token

QUESTION = [{"role": "user", "content": "What is 47 + 85?"}]


@pytest.fixture
def endpoint():
    with running() as server:
        yield server


def with_engine(endpoint, work, **settings):
    """Do it with an engine that asks the endpoint."""

    async def run():
        host = OpenAIHost(kind="openai", base_url=endpoint.url, model="m", **{"timeout_seconds": 5, **settings})
        engine = await started(host)
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def ask(endpoint, asking=Asking(max_tokens=8), **settings):  # noqa: B008 - it is frozen
    return with_engine(endpoint, lambda engine: engine.generate(QUESTION, asking), **settings)


LOGPROBS = Asking(max_tokens=8, logprobs=True, top_logprobs=2)


def test_a_reply_with_tokens(endpoint):
    top = [("1", -0.1), ("2", -2.5)]
    endpoint.replies = [choices(choice("132", [token("1", -0.1, top), token("32", -0.2, top), token("<|end|>", -0.3)]))]
    [said] = ask(endpoint, LOGPROBS)
    assert (said.text, said.reasoning, said.finish_reason) == ("132", None, "stop")
    assert said.tokens == ("1", "32")  # without the one that ended it
    assert said.logprobs.tolist() == [-0.1, -0.2]
    assert said.top_logprobs[0].tolist() == [-0.1, -2.5]
    assert (said.prompt_tokens, said.completion_tokens) == (9, 4)
    assert endpoint.asked == [
        {
            "model": "m",
            "messages": QUESTION,
            "max_tokens": 8,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 2,
        }
    ]


def test_what_is_not_told_is_missing(endpoint):
    [said] = ask(endpoint, LOGPROBS)
    assert said.text == "132"
    assert said.tokens == ()
    assert said.logprobs is None
    assert said.top_logprobs is None
    assert said.no_logprobs.startswith(f"{endpoint.url} told no log-probabilities; ")
    assert "host.gives_logprobs: false" in said.no_logprobs
    assert ask(endpoint)[0].no_logprobs == ""  # nobody asked for any


def test_nothing_is_asked_of_an_endpoint_that_is_said_not_to_give_it(endpoint):
    ask(endpoint, LOGPROBS, gives_logprobs=False)
    assert not {"logprobs", "top_logprobs"} & set(endpoint.asked[0])
    gives = with_engine(endpoint, _gives, gives_logprobs=False)
    assert gives == {"constrained"}
    assert "logprobs" in with_engine(endpoint, _gives)


async def _gives(engine):
    return engine.gives


THOUGHT = [token("<think>"), token("hm"), token("</think>"), token("\n\n"), token("1"), token("32"), token("<end>")]


@pytest.mark.parametrize(
    ("said", "start"),
    [
        (choice("<think>hm</think>\n\n132", THOUGHT), 4),
        (choice("hm</think>\n\n132", THOUGHT[1:]), 3),  # the prompt had the opening mark
        (choice("132", THOUGHT, reasoning_content="hm"), 4),  # a server that splits, and counts all tokens
        (choice("132", THOUGHT, reasoning="hm"), 4),
        (choice("132", THOUGHT[4:], reasoning="hm"), 0),  # one that tells of the answer alone
    ],
)
def test_a_trace_is_kept_apart(endpoint, said, start):
    endpoint.replies = [choices(said)]
    [heard] = ask(endpoint, LOGPROBS)
    assert (heard.text, heard.reasoning) == ("132", "hm")
    assert heard.answer_start == start
    assert heard.reasoning_tokens == (start or None)  # not 0: a trace of no tokens would be that of a sure model
    assert heard.tokens[start:] == ("1", "32")


def test_tokens_that_do_not_fit_the_text_are_not_told(endpoint):
    endpoint.replies = [choices(choice("132", [token("one"), token("hundred")]))]
    [said] = ask(endpoint, LOGPROBS)
    assert said.text == "132"
    assert said.logprobs is None
    assert "told tokens that do not make up its text" in said.no_logprobs


def test_a_character_of_two_tokens(endpoint):
    endpoint.replies = [choices(choice("4 €", [token("4"), token(b" \xe2"), token(b"\x82\xac"), token("<end>")]))]
    [said] = ask(endpoint, LOGPROBS)
    assert said.tokens == ("4", "", " €")


def test_half_a_character_is_none(endpoint):
    """JSON can spell it; what kept it could neither be logged nor sent."""
    spelled = json.dumps(reply("a\ud83d\ude00 \ud83d"))
    endpoint.replies = [Response(spelled, media_type="application/json")]
    assert ask(endpoint)[0].text == "a\U0001f600 \ufffd"
    endpoint.replies = [endpoint.streams([delta("1\ud83d"), delta("2", finish="stop")])]
    assert stream_of(endpoint)[-1].whole.text == "1\ufffd2"


def test_samples_are_asked_for_at_once(endpoint):
    endpoint.replies = [reply("1", "2", "3", completion_tokens=10)]
    asking = Asking(max_tokens=8, n=3, temperature=0.7, top_p=0.9, seed=5, stop=("\n",))
    said = ask(endpoint, asking)
    assert [one.text for one in said] == ["1", "2", "3"]
    assert [one.completion_tokens for one in said] == [4, 3, 3]
    [body] = endpoint.asked
    assert (body["n"], body["seed"], body["top_p"], body["stop"]) == (3, 5, 0.9, ["\n"])


def test_an_endpoint_that_ignores_n_is_asked_one_by_one(endpoint):
    endpoint.replies = [lambda body: reply(f"seed {body['seed']}")]
    said = ask(endpoint, Asking(max_tokens=8, n=3, temperature=1.0, seed=5))
    assert [one.text for one in said] == ["seed 5", "seed 6", "seed 7"]


def test_an_endpoint_that_refuses_n_is_asked_one_by_one(endpoint):
    endpoint.replies = [lambda body: refusal(400, "n must be 1") if body.get("n", 1) > 1 else reply("1")]

    async def twice(engine):
        for _ in range(2):
            assert len(await engine.generate(QUESTION, Asking(max_tokens=8, n=2, temperature=1.0))) == 2

    with_engine(endpoint, twice)
    assert [body.get("n", 1) for body in endpoint.asked] == [2, 1, 1, 1, 1]  # it is not asked for n again


def test_the_limit_has_another_name_for_some_models(endpoint):
    message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    endpoint.replies = [lambda body: refusal(400, message) if "max_tokens" in body else reply("132")]

    async def twice(engine):
        for _ in range(2):
            await engine.generate(QUESTION, Asking(max_tokens=8))

    with_engine(endpoint, twice)
    assert [body.get("max_completion_tokens") for body in endpoint.asked] == [None, 8, 8]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_fails_in_passing_is_asked_again(endpoint, status):
    endpoint.replies = [refusal(status, **{"retry-after-ms": "1"}), reply("132")]
    assert ask(endpoint)[0].text == "132"
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, r"answered 500: no$"),
        (429, r"answered 429: no$"),
        (400, r"refused the request: no$"),
        (401, r"refused the key in OPENAI_API_KEY \(401: no\)$"),
        (404, r"answered 404: no$"),
    ],
)
def test_what_keeps_failing_is_told(endpoint, status, message):
    endpoint.replies = [refusal(status, **{"retry-after-ms": "1"})]
    with pytest.raises(EngineFailed, match=message):
        ask(endpoint, retries=1)


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_key_that_an_endpoint_repeats_is_told_to_nobody(endpoint, monkeypatch, status):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-marked")
    endpoint.replies = [refusal(status, "nobody knows the key sk-marked here")]
    with pytest.raises(EngineFailed, match=r"nobody knows the key \(the key\) here$") as told:
        ask(endpoint, retries=0)
    assert endpoint.keys == ["Bearer sk-marked"]
    assert "sk-marked" not in str(told.value)


def test_a_slow_endpoint_is_not_waited_for(endpoint):
    endpoint.delay = 30
    with pytest.raises(EndpointAway, match=r"gave no whole reply within 0\.2 s"):
        ask(endpoint, timeout_seconds=0.2, retries=0)


def test_who_has_no_time_to_wait_for_a_retry_is_told_at_once(endpoint):
    endpoint.replies = [refusal(429, **{"retry-after": "30"})]
    with pytest.raises(EndpointAway, match=r"answered 429: no$") as away:
        ask(endpoint, timeout_seconds=20, retries=5)
    assert away.value.outage.retry_after == 30
    assert len(endpoint.asked) == 1


def test_retries_do_not_outlast_the_time_there_is(endpoint):
    endpoint.replies = [refusal(500)]
    with pytest.raises(EndpointAway, match=r"answered 500: no$"):
        ask(endpoint, timeout_seconds=0.3, retries=20)
    assert len(endpoint.asked) == 1  # the first pause would already be longer


def test_nobody_there():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = SimpleNamespace(url=f"http://127.0.0.1:{unused.getsockname()[1]}/v1")
        with pytest.raises(EngineFailed, match="cannot be reached"):
            ask(nobody, retries=0)


def test_no_more_are_asked_at_a_time_than_allowed(endpoint):
    endpoint.delay = 0.02

    async def many(engine):
        await asyncio.gather(*(engine.generate(QUESTION, Asking(max_tokens=1)) for _ in range(12)))

    with_engine(endpoint, many, concurrency=3)
    assert len(endpoint.asked) == 12
    assert endpoint.most == 3


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (JSONResponse({"choices": []}), "a reply without choices"),
        (JSONResponse({"choices": None}), "a reply without choices"),
        (JSONResponse(""), 'JSON that is no chat completion: ""'),
        (JSONResponse([1, 2]), r"JSON that is no chat completion: \[1, 2\]"),
        (JSONResponse({"choices": "none"}), "JSON that is no chat completion"),
        (JSONResponse({"choices": [{"message": None}]}), "JSON that is no chat completion"),
        (JSONResponse({"choices": [{"message": {"content": {"a": 1}}}]}), "JSON that is no chat completion"),
        (JSONResponse({"choices": [choice("1", [{"token": "1"}])]}), "JSON that is no chat completion"),
        (
            Response('{"choices": [', media_type="application/json"),
            r"not JSON \(application/json, which begins '{\"cho",
        ),
        (Response("", media_type="application/json"), r"not JSON \(application/json, which is empty\)"),
        (Response("[" * 100_000, media_type="application/json"), "not JSON"),
        (Response("sorry", media_type="text/plain"), r"not JSON \(text/plain, which begins 'sorry'\)"),
        (JSONResponse({"error": {"message": "no such tool"}}), "answered 200: no such tool"),
        (JSONResponse({}, 204), "answered 204"),
    ],
)
def test_what_is_no_reply_is_told_as_it_came(endpoint, said, message):
    endpoint.replies = [said]
    with pytest.raises(EngineFailed, match=message) as told:
        ask(endpoint)
    assert not isinstance(told.value, EndpointAway)  # it may be the input's fault


@pytest.mark.parametrize(
    "usage", [None, "much", {"prompt_tokens": -5, "completion_tokens": 1e300}, {"prompt_tokens": 10**30}]
)
def test_tokens_that_cannot_be_counted_are_not(endpoint, usage):
    endpoint.replies = [{**choices(choice("132")), "usage": usage}]
    [said] = ask(endpoint)
    assert (said.text, said.prompt_tokens, said.completion_tokens) == ("132", 0, 0)


def test_a_withheld_reply_is_no_reply(endpoint):
    endpoint.replies = [reply("", finish="content_filter")]
    with pytest.raises(EngineFailed, match="withheld"):
        ask(endpoint)


def test_a_reply_that_was_cut_off(endpoint):
    endpoint.replies = [reply("13", finish="length")]
    assert ask(endpoint)[0].finish_reason == "length"


ONLY = Asking(max_tokens=8, only=("yes", "no"), logprobs=True)


def test_only_some_texts_by_a_schema(endpoint):
    endpoint.replies = [choices(choice('{"reply": "no"}', [token('{"reply": "no"}')]))]
    [said] = ask(endpoint, ONLY)
    assert said.text == "no"
    assert said.logprobs is None  # of what was left to it, perhaps
    schema = endpoint.asked[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["reply"]["enum"] == ["yes", "no"]


def test_only_some_texts_by_vllms_own_means(endpoint):
    endpoint.owner, endpoint.replies = "vllm", [reply("no")]
    [said] = ask(endpoint, ONLY, extra_body={"top_k": 5})
    assert said.text == "no"
    assert endpoint.asked[0]["structured_outputs"] == {"choice": ["yes", "no"]}
    assert endpoint.asked[0]["top_k"] == 5
    assert "response_format" not in endpoint.asked[0]


def test_variables_of_the_chat_template_are_sent(endpoint):
    ask(endpoint, chat_template_kwargs={"enable_thinking": False})
    assert endpoint.asked[-1]["chat_template_kwargs"] == {"enable_thinking": False}
    ask(endpoint)
    assert "chat_template_kwargs" not in endpoint.asked[-1]


def test_an_endpoint_that_keeps_to_no_texts(endpoint):
    endpoint.replies = [reply("maybe")]
    with pytest.raises(CannotGive, match=r"set prompt\.constrained to false"):
        ask(endpoint, ONLY)


def label_logprobs(endpoint, labels, top, **how):
    endpoint.replies = [choices(choice(top[0][0], [token(*top[0], top)]))]
    work = lambda engine: engine.label_logprobs(QUESTION, labels, first_token=True)  # noqa: E731
    return with_engine(endpoint, work, **how)


def test_labels_by_their_first_tokens(endpoint):
    told = label_logprobs(endpoint, ("yes", "no"), [("yes", -0.1), ("n", -9.0), ("no", -2.5)])
    assert told.prompt_tokens == 9
    np.testing.assert_array_equal(told.values, [-0.1, -2.5])
    assert endpoint.asked[0]["top_logprobs"] == 20


def test_a_label_may_come_with_a_space_before_it(endpoint):
    told = label_logprobs(endpoint, ("yes", "no"), [("yes", -0.1), (" no", -2.5)])
    np.testing.assert_array_equal(told.values, [-0.1, -2.5])


def test_a_label_that_is_not_listed_has_the_most_that_it_can(endpoint):
    told = label_logprobs(endpoint, ("yes", "no", "perhaps"), [("yes", np.log(0.9)), ("a", np.log(0.05)), ("b", -9.0)])
    np.testing.assert_allclose(told.values, [np.log(0.9), -9.0, -9.0])


def test_a_label_that_could_be_the_most_probable_one_is_named(endpoint):
    with pytest.raises(LabelsUntold, match=r"lists 2 tokens \('The', 'A'\), and not the label 'yes', 'no', which"):
        label_logprobs(endpoint, ("yes", "no"), [("The", -0.5), ("A", -1.5)])
    with pytest.raises(LabelsUntold, match=r"and not the label 'no', which may be the most probable one"):
        label_logprobs(endpoint, ("yes", "no"), [("The", -1.0), ("yes", -1.5)])


def test_an_endpoint_that_tells_the_drawn_token_alone(endpoint):
    endpoint.replies = [choices(choice("yes", [token("yes", np.log(0.9))]))]
    work = lambda engine: engine.label_logprobs(QUESTION, ("yes", "no"), first_token=True)  # noqa: E731
    np.testing.assert_allclose(np.exp(with_engine(endpoint, work).values), [0.9, 0.1])


@pytest.mark.parametrize("tokens", [None, []])
def test_labels_without_log_probabilities_say_which_key_to_set(endpoint, tokens):
    endpoint.replies = [choices(choice("yes", tokens))]
    with pytest.raises(LabelsUntold, match=r"told no log-probabilities; .*host\.gives_logprobs: false.*prompt\.probab"):
        with_engine(endpoint, lambda engine: engine.label_logprobs(QUESTION, ("yes", "no"), first_token=True))


@pytest.mark.parametrize("logprob", [2.0, float("nan")])
def test_numbers_that_are_no_log_probabilities_are_not_taken(endpoint, logprob):
    spelled = json.dumps(choices(choice("yes", [token("yes", -0.1, [("yes", logprob)])])))
    endpoint.replies = [Response(spelled, media_type="application/json")]
    with pytest.raises(LabelsUntold, match="is no log-probability"):
        with_engine(endpoint, lambda engine: engine.label_logprobs(QUESTION, ("yes", "no"), first_token=True))


def test_labels_that_begin_alike(endpoint):
    with pytest.raises(CannotGive, match="'A01' and 'A02' begin with the same token"):
        label_logprobs(endpoint, ("A01", "A02"), [("A", -0.1)])


def test_whole_labels_cannot_be_scored(endpoint):
    with pytest.raises(CannotGive, match=r"set prompt\.probabilities to first_token"):
        with_engine(endpoint, lambda engine: engine.label_logprobs(QUESTION, ("a", "b"), first_token=False))


USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}


def stream_of(endpoint, asking=LOGPROBS, **settings):
    async def pieces(engine):
        return [piece async for piece in engine.stream(QUESTION, asking)]

    return with_engine(endpoint, pieces, **settings)


@pytest.mark.parametrize("name", [None, "reasoning", "reasoning_content"])
def test_a_stream(endpoint, name):
    thought = [delta("<th"), delta("ink>hm</think>")] if name is None else [delta(None, **{name: "hm"})]
    answer = [delta("13", tokens=[token("13", -0.1)]), delta("2", tokens=[token("2", -0.2)])]
    endpoint.replies = [endpoint.streams([*thought, *answer, delta(finish="stop"), delta(usage=USAGE)])]
    pieces = stream_of(endpoint)
    assert "".join(piece.text for piece in pieces) == "132"
    assert "".join(piece.reasoning for piece in pieces) == "hm"
    whole = pieces[-1].whole
    assert (whole.text, whole.reasoning, whole.finish_reason) == ("132", "hm", "stop")
    assert whole.logprobs.tolist() == [-0.1, -0.2]
    assert (whole.prompt_tokens, whole.completion_tokens) == (9, 5)
    assert endpoint.asked[0]["stream"] is True


def test_a_stream_of_some_texts_tells_the_text_and_no_json(endpoint):
    endpoint.replies = [endpoint.streams([delta('{"reply": '), delta('"no"}'), delta(finish="stop")])]
    pieces = stream_of(endpoint, ONLY)
    assert [piece.text for piece in pieces] == ["no"]
    assert pieces[0].whole.text == "no"


def test_a_stream_that_breaks_off(endpoint):
    endpoint.replies = [endpoint.streams([delta("13")])]
    with pytest.raises(EngineFailed, match="broke off"):
        stream_of(endpoint)


def test_a_stream_that_is_refused_in_passing_is_asked_for_again(endpoint):
    endpoint.replies = [refusal(503, **{"retry-after-ms": "1"}), endpoint.streams([delta("1"), delta(finish="stop")])]
    assert stream_of(endpoint)[-1].whole.text == "1"


def test_a_closed_stream_is_closed_at_the_endpoint(endpoint):
    endpoint.replies = [endpoint.streams([], endless=True)]

    async def first(engine):
        stream = engine.stream(QUESTION, Asking(max_tokens=8))
        async for _ in stream:
            break
        await stream.aclose()
        while not endpoint.gone:
            await asyncio.sleep(0.01)
        endpoint.replies = [reply("132")]
        return await engine.generate(QUESTION, Asking(max_tokens=8))

    assert with_engine(endpoint, first, concurrency=1)[0].text == "132"  # and its slot is free


def test_the_key_comes_from_the_environment(endpoint, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "s3cret")
    ask(endpoint, api_key_env="SOME_KEY")
    assert endpoint.keys == ["Bearer s3cret"]


def test_a_missing_key_is_told_unless_the_endpoint_is_here(endpoint, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ask(endpoint)
    for away in ("https://models.example.org/v1", "https://127.0.0.1.example.org/v1"):
        with pytest.raises(CannotGive, match="the environment has no OPENAI_API_KEY"):
            ask(SimpleNamespace(url=away))


def test_pictures_are_sent_as_they_came(endpoint):
    content = [{"type": "image_url", "image_url": {"url": url(png(8, 8))}}, {"type": "text", "text": "What is this?"}]
    endpoint.replies = [reply("a square")]

    async def both(engine):
        [said] = await engine.generate([{"role": "user", "content": content}], Asking(max_tokens=8))
        pieces = [piece async for piece in engine.stream([{"role": "user", "content": content}], Asking(max_tokens=8))]
        return said, pieces

    endpoint.replies = [reply("a square"), endpoint.streams([delta("a "), delta("square", finish="stop")])]
    said, pieces = with_engine(endpoint, both, pictures=1)
    assert said.text == pieces[-1].whole.text == "a square"
    assert [asked["messages"][0]["content"] for asked in endpoint.asked] == [content, content]


def test_an_endpoint_whose_model_sees_nothing(endpoint):
    endpoint.replies = [refusal(400, "this model does not support image input")]
    with pytest.raises(EngineFailed, match="does not support image input"):
        ask(endpoint, pictures=1)
