"""What comes back in the place of a reply, and more of it than a reply can have: against a real server."""

import asyncio
import gzip
import json
import tracemalloc

import pytest
from fastapi.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from demur.serve.config.hosts.endpoint import OpenAIHost
from demur.serve.contract.engine import Asking, CannotGive, EngineFailed
from demur.serve.hosts.endpoint_http import TooLong
from demur.serve.hosts.language.engines import started
from demur.serve.hosts.language.openai_endpoint import most_bytes
from demur.serve.hosts.outages import LONGEST_RETRY_AFTER, EndpointAway, outage_of_status, retry_after
from tests.serve.endpoint import delta, refusal, reply, running

QUESTION = [{"role": "user", "content": "What is 47 + 85?"}]
ASKING = Asking(max_tokens=8)


@pytest.fixture
def endpoint():
    with running() as server:
        yield server


def with_engine(endpoint, work, **settings):
    async def run():
        told = {"timeout_seconds": 20, "retries": 0, **settings}
        engine = await started(OpenAIHost(kind="openai", base_url=endpoint.url, model="m", **told))
        try:
            return await work(engine)
        finally:
            await engine.close()

    return asyncio.run(run())


def ask(endpoint, said, **settings):
    endpoint.replies = [said]
    return with_engine(endpoint, lambda engine: engine.generate(QUESTION, ASKING), **settings)


def stream(endpoint, said, **settings):
    async def pieces(engine):
        return [piece async for piece in engine.stream(QUESTION, ASKING)]

    endpoint.replies = [said]
    return with_engine(endpoint, pieces, **settings)


def outage_of(endpoint, said, way=ask, **settings):
    with pytest.raises(EndpointAway) as away:
        way(endpoint, said, **settings)
    return away.value.outage


PAGE = "<!doctype html><html><title>Sign in</title></html>"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (Response(PAGE, media_type="text/html"), "text/html"),
        (Response(f"\n {PAGE}", media_type="application/json"), "application/json"),
    ],
)
@pytest.mark.parametrize("way", [ask, stream])
def test_a_web_page_is_no_endpoint(endpoint, said, kind, way):
    outage = outage_of(endpoint, said, way)
    assert outage.what == "answered with a web page"
    assert outage.why.startswith(f"{endpoint.url} answered with a web page ({kind}, which begins '<!doctype html>")
    assert outage.why.endswith("see whether host.base_url is right")
    assert not outage.passes


@pytest.mark.parametrize(
    ("status", "passes"),
    [
        *((status, False) for status in (301, 401, 402, 404, 501)),
        *((status, True) for status in (408, 409, 429, 500, 502, 503, 529)),
    ],
)
def test_statuses_of_outages(endpoint, status, passes):
    outage = outage_of(endpoint, refusal(status, "not now", **{"retry-after": "7"}))
    assert outage.passes is passes
    assert outage.retry_after == (7 if passes else None)
    assert "not now" in outage.why


@pytest.mark.parametrize("status", [400, 413, 422, 418])
def test_what_is_about_the_request_is_no_outage(endpoint, status):
    with pytest.raises(EngineFailed) as failed:
        ask(endpoint, refusal(status, "too long"))
    assert not isinstance(failed.value, EndpointAway)


def test_a_403_may_be_about_the_input(endpoint):
    with pytest.raises(EngineFailed, match="flagged") as failed:
        ask(endpoint, refusal(403, "your input was flagged by moderation"))
    assert not isinstance(failed.value, EndpointAway)
    assert outage_of(endpoint, refusal(403, "no access")).what == "refused the key"


def test_a_quota_that_is_used_up_does_not_come_back_by_itself(endpoint):
    said = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    assert not outage_of(endpoint, JSONResponse(said, 429)).passes
    assert outage_of_status(429, "rate_limit_exceeded") is True


@pytest.mark.parametrize("code", [429, 502])
def test_an_outage_may_be_told_with_status_200(endpoint, code):
    outage = outage_of(endpoint, JSONResponse({"error": {"message": "provider is down", "code": code}}))
    assert (outage.what, outage.passes) == (f"answered {code}", True)
    events = endpoint.streams([delta("1"), {"error": {"message": "provider is down", "code": code}}])
    assert outage_of(endpoint, events, stream).what == f"answered {code}"


def test_a_redirect_is_not_followed(endpoint):
    outage = outage_of(endpoint, RedirectResponse(f"{endpoint.url}/elsewhere", 308))
    assert "it points to" in outage.why
    assert len(endpoint.asked) == 1


def test_a_connection_that_breaks_in_a_reply(endpoint):
    async def half():
        yield b'{"choices": ['
        raise RuntimeError("cut")

    headers = {"content-type": "application/json", "content-length": "1000"}
    outage = outage_of(endpoint, lambda body: StreamingResponse(half(), headers=headers))
    assert outage.what == "broke off in the middle of a reply"
    assert outage.passes


def endless(piece, kind):
    async def parts():
        while True:
            yield piece
            await asyncio.sleep(0)

    return lambda body: StreamingResponse(parts(), media_type=kind)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "piece", "kind"),
    [
        (ask, b'"' + b"x" * 100_000, "application/json"),
        (stream, b"data: " + b"x" * 100_000, "text/event-stream"),  # a line that never ends
        (stream, b": ping\n\n" * 10_000, "text/event-stream"),
        (stream, f"data: {json.dumps(delta('more '))}\n\n".encode() * 1000, "text/event-stream"),
    ],
)
def test_an_endless_reply_is_read_no_further_than_a_reply_can_be(endpoint, way, piece, kind):
    tracemalloc.start()
    with pytest.raises(TooLong, match=f"sent more than {most_bytes(ASKING):,} bytes"):
        way(endpoint, endless(piece, kind), timeout_seconds=120)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * most_bytes(ASKING)


@pytest.mark.slow
def test_a_stream_that_drips_is_over_in_time(endpoint):
    dripping = endpoint.streams([], endless=True)
    outage = outage_of(endpoint, dripping, stream, timeout_seconds=0.5)
    assert "gave no whole reply within 0.5 s" in outage.why


def test_a_compressed_reply_is_not_unpacked(endpoint):
    bomb = gzip.compress(b" " * 50_000_000)
    said = Response(bomb, media_type="application/json", headers={"content-encoding": "gzip"})
    outage = outage_of(endpoint, said)
    assert "in the encoding 'gzip', which was not asked for" in outage.why


def test_a_gigantic_error_is_not_read(endpoint):
    assert outage_of(endpoint, Response(b"x" * 10_000_000, 500)).why == f"{endpoint.url} answered 500: nothing more"


def test_what_an_endpoint_says_can_be_shown(endpoint):
    outage = outage_of(endpoint, refusal(500, "red\x1b[31m\nnew \u202eline"))
    assert outage.why == f"{endpoint.url} answered 500: red\\x1b[31m new \\u202eline"
    half = Response(b'{"error": {"message": "half \\ud83d"}}', 500, media_type="application/json")
    assert outage_of(endpoint, half).why.endswith("half ?")


def test_an_endpoint_that_does_not_stream_is_told_so(endpoint):
    with pytest.raises(EngineFailed, match="does not stream: it answered with application/json"):
        stream(endpoint, JSONResponse(reply("132")))


def test_a_key_that_no_header_can_hold(endpoint, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-\u20ac")
    with pytest.raises(CannotGive, match="the key in OPENAI_API_KEY has characters"):
        ask(endpoint, reply("132"))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "1e9"}, LONGEST_RETRY_AFTER),
        ({"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}, LONGEST_RETRY_AFTER),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_when_to_try_again(headers, seconds):
    assert retry_after(headers) == seconds


def in_turn(first, second, work, **settings):
    """Do it with an engine that has two endpoints."""
    settings = {"endpoints": [{"base_url": second.url, "model": "other"}], **settings}
    return with_engine(first, work, **settings)


@pytest.fixture
def other():
    with running() as server:
        yield server


async def answer(engine):
    [said] = await engine.generate(QUESTION, ASKING)
    return said.text, said.elsewhere


@pytest.mark.parametrize("status", [401, 429, 500])
def test_the_following_endpoint_is_asked(endpoint, other, status):
    endpoint.replies, other.replies = [refusal(status)], [reply("133")]
    assert in_turn(endpoint, other, answer) == ("133", other.url)
    assert other.asked[0]["model"] == "other"


@pytest.mark.slow
def test_the_following_endpoint_has_its_share_of_the_time(endpoint, other):
    endpoint.delay, other.replies = 30, [reply("133")]
    assert in_turn(endpoint, other, answer, timeout_seconds=2) == ("133", other.url)


@pytest.mark.slow
def test_one_that_is_away_is_passed_over_for_a_while_and_then_asked_again(endpoint, other, caplog):
    endpoint.replies = [refusal(503, **{"retry-after": "0.5"}), reply("132")]
    other.replies = [reply("133")]

    async def thrice(engine):
        said = [await answer(engine), await answer(engine)]
        assert engine.remarks()[0].startswith(f"{endpoint.url} answered 503: no (away since ")
        await asyncio.sleep(0.6)
        said.append(await answer(engine))
        assert engine.remarks() == []
        return [text for text, _ in said]

    assert in_turn(endpoint, other, thrice) == ["133", "133", "132"]
    assert len(endpoint.asked) == 2
    assert f"{endpoint.url} answers again" in caplog.text


def test_what_is_about_the_request_is_not_asked_elsewhere(endpoint, other):
    endpoint.replies = [refusal(400, "too long")]
    with pytest.raises(EngineFailed, match="too long"):
        in_turn(endpoint, other, answer)
    assert other.asked == []


def test_where_all_are_away_the_last_one_says_so(endpoint, other):
    endpoint.replies, other.replies = [refusal(500)], [refusal(429, **{"retry-after": "9"})]

    async def twice(engine):
        for _ in range(2):
            with pytest.raises(EndpointAway) as away:
                await answer(engine)
        return away.value.outage

    outage = in_turn(endpoint, other, twice)
    assert (outage.what, outage.retry_after) == ("answered 429", 9)


def test_a_stream_goes_to_the_following_endpoint(endpoint, other):
    endpoint.replies = [refusal(500)]
    other.replies = [other.streams([delta("133"), delta(finish="stop")])]

    async def pieces(engine):
        return [piece async for piece in engine.stream(QUESTION, ASKING)]

    whole = in_turn(endpoint, other, pieces)[-1].whole
    assert (whole.text, whole.elsewhere) == ("133", other.url)


def test_endpoints_that_refuse_different_things_are_told_apart(endpoint, other):
    said = {"error": {"message": "temperature is not supported", "param": "temperature"}}
    endpoint.replies = [refusal(500)]
    other.replies = [lambda body: JSONResponse(said, 400) if "temperature" in body else reply("133")]

    async def left_out(engine):
        return (await engine.generate(QUESTION, ASKING))[0].left_out

    assert in_turn(endpoint, other, left_out) == {"temperature=0"}
    endpoint.replies = [reply("132")]
    assert in_turn(endpoint, other, left_out) == frozenset()
