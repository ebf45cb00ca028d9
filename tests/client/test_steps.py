"""What is tried again, how often, after which pauses, and what is said in the end."""

import json

import httpx
import pytest

from demur.client import errors
from demur.client.errors import (
    BadReply,
    InvalidRequest,
    KeyReused,
    ModelUnavailable,
    NotAllowed,
    NotFound,
    NotKnown,
    ServiceFailed,
    TimedOut,
    TooLarge,
    TooOften,
    Unreachable,
)
from tests.client.fake import PREDICTION, Service, problem, reply

BROKEN = httpx.RemoteProtocolError("Server disconnected without sending a response.")
REFUSED = httpx.ConnectError("[Errno 111] Connection refused")


@pytest.mark.parametrize(
    ("told", "error"),
    [
        (problem("MalformedBody", "no JSON", 400), InvalidRequest),
        (problem("NotKnown", "send a key", 401), NotKnown),
        (problem("NotAllowed", "not for you", 403), NotAllowed),
        (problem("UnknownModel", "there is none", 404), NotFound),
        (problem("KeyReused", "used before", 409), KeyReused),
        (problem("TooLarge", "too large", 413), TooLarge),
        (problem("InvalidRequest", "input: no", 422), InvalidRequest),
        (problem("UpstreamFailed", "mend it", 502), ModelUnavailable),
        (problem("InternalError", "a bug", 500), ServiceFailed),
        (problem("DeadlinePassed", "over", 504), TimedOut),
        (
            reply({"error": {"message": "no", "type": "invalid_request_error", "code": "InvalidRequest"}}, 400),
            InvalidRequest,
        ),
        (reply({"error": "no such model"}, 404), NotFound),
    ],
)
def test_what_waiting_does_not_help_is_raised_at_once(asking, time, told, error):
    service = Service(told)
    with pytest.raises(error) as raised:
        asking(service).predict("m", "x")
    assert raised.value.status == told.status_code
    assert len(service.requests) == 1
    assert time.pauses == []


@pytest.mark.parametrize(
    "told",
    [
        problem("Overloaded", "too much", 503, Retry_After="2"),
        problem("TooOften", "slower", 429, Retry_After="2"),
        problem("GatewayLost", "gone", 502, Retry_After="2"),
        problem("BodyTooSlow", "slow", 408),
        reply(b"<html>Bad gateway</html>", 502),
        reply(b"", 504),
        BROKEN,
        httpx.ReadError("reset"),
    ],
)
def test_what_may_pass_is_tried_again_under_one_key(asking, time, told):
    service = Service(told, told, reply(PREDICTION))
    client = asking(service)
    assert client.predict("m", "x").label == "7"
    assert len(service.requests) == 3
    keys = {request.headers["idempotency-key"] for request in service.requests}
    assert len(keys) == 1
    assert len({request.content for request in service.requests}) == 1
    wanted = 2 if getattr(told, "headers", {}).get("retry-after") else 0
    assert all(wanted <= pause <= wanted + 0.4 for pause in time.pauses)


def test_pauses_grow_and_end_with_the_time(asking, time):
    service = Service(reply(PREDICTION), BROKEN)
    client = asking(service, timeout=60)
    client.predict("m", "x")
    with pytest.raises(Unreachable, match=r"the connection to http://demur\.test broke"):
        client.predict("m", "x")
    assert time.pauses == sorted(time.pauses) or max(time.pauses) <= 10
    assert 40 < sum(time.pauses) < 60
    assert time.pauses[0] <= 0.2


def test_an_address_that_never_answered_is_given_up_soon(asking, time):
    service = Service(REFUSED)
    with pytest.raises(
        Unreachable, match=r"no service answers at http://demur.test \(.*refused\); start it, or correct"
    ):
        asking(service).health()
    assert 1 < len(service.requests) < 10
    assert sum(time.pauses) < 3


def test_a_service_that_starts_is_waited_for(asking, time):
    service = Service(problem("NoGateway", "it starts", 503, Retry_After="5"), *[REFUSED] * 6, reply(PREDICTION))
    assert asking(service).predict("m", "x").answered
    assert sum(time.pauses) > 5


@pytest.mark.parametrize("wait", ["86400", "9" * 400, "1e308"])
def test_a_wait_that_is_too_long_is_not_begun(asking, time, wait):
    service = Service(problem("TooOften", "tomorrow", 429, Retry_After=wait))
    with pytest.raises(TooOften, match="tomorrow"):
        asking(service, timeout=30).predict("m", "x")
    assert sum(time.pauses) < 30


@pytest.mark.parametrize(
    "wait", ["-5", "nan", "inf", "soon", "", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 99 Oct 2015", "0x10"]
)
def test_a_wait_that_says_nothing_is_left_to_the_client(asking, time, wait):
    service = Service(problem("Overloaded", "busy", 503, Retry_After=wait), reply(PREDICTION))
    assert asking(service).predict("m", "x").answered
    assert 0 < sum(time.pauses) <= 0.2


def test_a_date_is_taken_as_well():
    at = 1_445_412_480
    assert errors.seconds_until_retry("Wed, 21 Oct 2015 07:28:30 GMT", at) == 30
    assert errors.seconds_until_retry("Wed, 21 Oct 2015 07:27:30 GMT", at) == 0
    assert errors.seconds_until_retry(True, at) is None
    assert errors.seconds_until_retry({}, at) is None


def test_the_service_is_told_how_long_it_has(asking, time):
    service = Service(problem("Overloaded", "busy", 503, Retry_After="4"), reply(PREDICTION))
    asking(service).predict("m", "x", timeout=10)
    first, second = (float(request.headers["x-request-timeout"]) for request in service.requests)
    assert first == 10
    assert 5 < second < 6.1
    assert all(request.extensions["timeout"]["read"] > 5 for request in service.requests)


def test_a_reply_that_does_not_end_is_given_up(asking, time):
    class Dripping(httpx.SyncByteStream, httpx.AsyncByteStream):
        def __iter__(self):
            while True:
                time.now += 1
                yield b" "

        async def __aiter__(self):
            for part in self:
                yield part

    service = Service(lambda request: httpx.Response(200, stream=Dripping()))
    with pytest.raises(TimedOut, match="did not answer in time"):
        asking(service, timeout=20).predict("m", "x")
    assert time.now < 1000 + 30


def test_a_reply_without_bound_is_not_kept(asking, monkeypatch):
    monkeypatch.setattr("demur.client.transfer.MOST_BYTES", 1000)
    with pytest.raises(BadReply, match="has more than 1,000 bytes"):
        asking(Service(reply(b"x" * 2000))).predict("m", "x")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (reply(b"<html>hello</html>"), "http://demur.test/v1/predict sent what is no JSON: '"),
        (reply(b"[" * 100_000), "http://demur.test/v1/predict sent what is no JSON: '"),
        (reply(b"[]"), "the service sent a list where an object is expected"),
        (
            reply(b"<html>no</html>", 404),
            "answered 404 and says what no demur says: '<html>no</html>'; is this its address?",
        ),
        (reply(b"", 500), "says what no demur says"),
        (reply({"error": {"kind": 7}}, 400), "says what no demur says"),
        (reply({"error": {"kind": {}, "message": []}}, 418), "says what no demur says"),
        (reply(b"\xff\xfe", 422), "says what no demur says"),
        (
            reply(b"", 307, Location="http://elsewhere.test/"),
            "answered 307 and points to http://elsewhere.test/; give that",
        ),
        (reply(b"", 204), "says what no demur says"),
    ],
)
def test_a_reply_of_something_else_is_told(asking, told, said):
    service = Service(told)
    with pytest.raises(BadReply) as raised:
        asking(service).predict("m", "x")
    assert said in str(raised.value)
    assert len(service.requests) == 1


def test_a_hostile_message_gives_no_orders_and_is_cut(asking):
    with pytest.raises(InvalidRequest) as raised:
        asking(Service(problem("A\x1b[31m", "\x1b]0;x\x07\u202etxet\n\r" + "a" * 10_000, 422))).predict("m", "x")
    shown = str(raised.value)
    assert shown.startswith("\\x1b]0;x\\x07\\u202etxet\\n\\r")
    assert len(shown) < 1100
    assert raised.value.kind == "A\\x1b[31m"


def test_the_key_is_nowhere(asking):
    secret = "demur_s3cret"
    service = Service(problem("NotKnown", "send a key", 401))
    client = asking(service, key=secret, url="http://demur.test/below/")
    assert secret not in repr(client)
    with pytest.raises(NotKnown) as raised:
        client.predict("m", "x")
    assert secret not in f"{raised.value!r} {raised.value.__dict__}"
    (request,) = service.requests
    assert request.headers["authorization"] == f"Bearer {secret}"
    assert request.url.path == "/below/v1/predict"
    service = Service(REFUSED)
    client = asking(service, url="http://user:pass@demur.test")
    with pytest.raises(Unreachable) as raised:
        client.health()
    assert "pass" not in f"{client!r} {raised.value}"


def test_only_what_is_given_is_sent(asking):
    service = Service(reply(PREDICTION))
    client = asking(service)
    client.predict("m", "x")
    client.predict("m", "x", group="g", cluster="c", review={"priority": 1}, idempotency_key="k")
    client.predict("m", output={"probabilities": [0.5, 0.5]})
    client.predict("m", "seen", output=[1.0], timeout=5000)
    bodies = [json.loads(request.content) for request in service.requests]
    assert bodies == [
        {"model": "m", "input": "x"},
        {"model": "m", "input": "x", "group": "g", "cluster": "c", "review": {"priority": 1}},
        {"model": "m", "output": {"probabilities": [0.5, 0.5]}},
        {"model": "m", "input": "seen", "output": [1.0]},
    ]
    assert service.requests[1].headers["idempotency-key"] == "k"
    assert "x-request-timeout" not in service.requests[3].headers
    assert all(request.headers["content-type"] == "application/json" for request in service.requests)


@pytest.mark.parametrize("key", ["", "a key", "ä", "k\r\nX: y", "k" * 201])
def test_a_key_that_cannot_be_sent_is_refused_here(asking, key):
    service = Service(reply(PREDICTION))
    with pytest.raises(InvalidRequest, match="idempotency_key"):
        asking(service).predict("m", "x", idempotency_key=key)
    assert service.requests == []
