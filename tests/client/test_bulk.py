"""Many inputs at once: in order, a bounded number at a time, each of them asked until it has its answer."""

import json
import random
import threading
import time as real_time

import httpx
import pytest

from demur.client import batches
from demur.client.batches import BatchBuilder
from demur.client.errors import BadReply, DemurError, InvalidRequest, KeyReused, TooLarge, Unavailable, Unreachable
from demur.client.items import Item
from demur.client.sync_client import Client
from tests.client.fake import OUTCOME, PREDICTION, URL, Service, problem, reply

BROKEN = httpx.RemoteProtocolError("disconnected")


def good(value, replayed=False):
    return {"status": 200, "replayed": replayed, "prediction": {**PREDICTION, "prediction": str(value)}, "error": None}


def bad(kind, message, status, wait=None):
    return {"status": status, "prediction": None, "error": {"kind": kind, "message": message}, "retry_after": wait}


def items_of(request):
    return [item["input"] for item in json.loads(request.content)["items"]]


def echo(request):
    return reply({"results": [good(value) for value in items_of(request)]})


def labels(results):
    return [one.label for one in results]


def test_answers_come_in_the_order_of_the_inputs(time):
    """Whichever batch is answered first."""
    running, most = 0, 0
    lock = threading.Lock()

    def slow(request):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        real_time.sleep(random.Random(request.content).random() / 50)
        with lock:
            running -= 1
        return echo(request)

    client = Client(URL, transport=httpx.MockTransport(slow), concurrency=3)
    assert labels(client.predict_many("m", range(100), batch_size=7)) == [str(n) for n in range(100)]
    assert most == 3
    assert labels(client.predict_many("m", range(20), batch_size=2, concurrency=1)) == [str(n) for n in range(20)]


def test_a_misspelt_option_is_told(asking):
    for option in ("batchsize", "output", "idempotencykey"):
        with pytest.raises(TypeError, match=f"no option '{option}'"):
            asking(Service(echo)).predict_many("m", range(3), **{option: 3})


def test_every_batch_has_a_key_of_its_own(asking):
    service = Service(echo)
    client = asking(service)
    assert labels(client.predict_many("m", range(10), batch_size=4)) == [str(n) for n in range(10)]
    assert sorted(map(len, map(items_of, service.requests))) == [2, 4, 4]
    assert len({request.headers["idempotency-key"] for request in service.requests}) == 3
    keys = set()
    for _ in range(2):
        service.requests.clear()
        list(client.predict_many("m", range(10), batch_size=4, idempotency_key="run"))
        keys |= {request.headers["idempotency-key"] for request in service.requests}
    assert keys == {"run-0-4", "run-4-4", "run-8-2"}
    service.requests.clear()
    list(client.predict_many("m", [1, 2], idempotency_key="run", first=8))
    assert service.requests[0].headers["idempotency-key"] == "run-8-2"


def test_a_broken_batch_is_sent_again_as_it_was(asking, time):
    service = Service(BROKEN, problem("Overloaded", "busy", 503, Retry_After="3"), echo)
    assert labels(asking(service).predict_many("m", [1, 2])) == ["1", "2"]
    assert len({(request.headers["idempotency-key"], request.content) for request in service.requests}) == 1
    assert 3 < sum(time.pauses) < 5


def test_items_that_may_pass_are_sent_again_with_their_batch(asking, time):
    first = {"results": [good(1), bad("Overloaded", "busy", 503, 2), bad("InvalidRequest", "no", 422)]}
    second = {"results": [good(1, replayed=True), good(2), bad("InvalidRequest", "no", 422)]}
    service = Service(reply(first), reply(second))
    done = asking(service).predict_many("m", [1, 2, 3], on_error="return")
    assert labels(done[:2]) == ["1", "2"]
    assert [done[0].replayed, done[1].replayed] == [True, False]
    assert isinstance(done[2], InvalidRequest)
    assert (done[2].position, str(done[2])) == (2, "input 2: no")
    assert len({request.headers["idempotency-key"] for request in service.requests}) == 1
    assert 2 < sum(time.pauses) < 3


def test_an_item_that_stays_refused_is_given_back_in_time(asking, time):
    service = Service(reply({"results": [good(1), bad("ModelFailed", "no model", 503, 20)]}))
    done = asking(service).predict_many("m", [1, 2], on_error="return", timeout=50)
    assert done[0].label == "1"
    assert isinstance(done[1], Unavailable)
    assert done[1].retry_after == 20
    assert len(service.requests) == 3
    assert sum(time.pauses) < 50


@pytest.mark.parametrize("wait", [1e300, -1, "soon", True, {}, float("nan")])
def test_a_hostile_wait_of_an_item(asking, time, wait):
    told = reply(json.dumps({"results": [bad("Overloaded", "busy", 503, wait)]}).encode())
    (done,) = asking(Service(told)).predict_many("m", [1], on_error="return", timeout=20)
    assert isinstance(done, Unavailable)
    assert sum(time.pauses) < 20


def test_the_first_refused_input_is_raised_in_order(asking):
    refused = bad("InvalidRequest", "no", 422)

    def answer(request):
        return reply({"results": [refused if value in (5, 8) else good(value) for value in items_of(request)]})

    seen = []

    def ask():
        for one in asking(Service(answer)).predict_iter("m", range(10), batch_size=2):
            seen.append(one.label)

    with pytest.raises(InvalidRequest, match=r"^input 5: no$"):
        ask()
    assert seen in (["0", "1", "2", "3", "4"], [])  # in these tests the awaited client hands out all together


def test_what_nobody_answers_is_raised_in_any_case(asking):
    with pytest.raises(KeyReused):
        asking(Service(problem("KeyReused", "used before", 409))).predict_many("m", [1], on_error="return")
    with pytest.raises(Unreachable):
        asking(Service(httpx.ConnectError("refused"))).predict_many("m", [1], on_error="return")


def test_a_batch_that_is_too_large_is_halved(asking):
    def small(request):
        if len(items_of(request)) > 3:
            return problem("TooLarge", "items: the batch has too many", 413)
        return echo(request)

    service = Service(small)
    done = asking(service).predict_many("m", range(10), batch_size=10, idempotency_key="run")
    assert labels(done) == [str(n) for n in range(10)]
    assert "run-0-10" in {request.headers["idempotency-key"] for request in service.requests}
    assert "run-2-3" in {request.headers["idempotency-key"] for request in service.requests}


def test_one_input_that_is_too_large_is_refused_alone(asking):
    def small(request):
        return problem("TooLarge", "the body", 413) if "x" * 10 in request.content.decode() else echo(request)

    done = asking(Service(small)).predict_many("m", ["a", "x" * 10, "b"], on_error="return")
    assert [type(one) for one in done if isinstance(one, DemurError)] == [TooLarge]
    assert (done[0].label, str(done[1]), done[2].label) == ("a", "input 1: the body", "b")


def test_large_inputs_make_small_batches_and_the_same_ones_again(monkeypatch):
    monkeypatch.setattr(batches, "MOST_BYTES", 100)
    sizes = []
    for _ in range(2):
        builder = BatchBuilder(lambda value: {"input": value}, size=4, first=0, what="input")
        made = [batch for n in range(10) for batch in builder.add("x" * 10 * (n % 5))]
        made += builder.rest()
        sizes.append([(batch.first, len(batch.bodies)) for batch in made])
    assert sizes[0] == sizes[1]
    assert sum(size for _, size in sizes[0]) == 10
    # a chunk of four inputs begins anew, so whoever goes on at a multiple of four makes the same batches
    again = BatchBuilder(lambda value: {"input": value}, size=4, first=4, what="input")
    made = [batch for n in range(4, 10) for batch in again.add("x" * 10 * (n % 5))] + list(again.rest())
    assert [(batch.first, len(batch.bodies)) for batch in made] == [one for one in sizes[0] if one[0] >= 4]


def test_what_has_no_json_is_refused_alone_and_not_sent(asking):
    service = Service(echo)
    done = asking(service).predict_many("m", [1, {1, 2}, 3], on_error="return")
    assert (done[0].label, done[2].label) == ("1", "3")
    assert str(done[1]) == "input 1: this cannot be sent as JSON: there is no JSON for set"
    assert [items_of(request) for request in service.requests] == [[1, 3]]
    assert asking(service).predict_many("m", [{1}], on_error="return")[0].position == 0
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"results": []},
        {"results": [good(1)] * 3},
        {"results": [1, 2]},
        {"results": None},
        {},
        {"results": [good(1), {"error": 7, "status": 422}]},
        {"results": [good(1), {"error": {"message": "x"}, "status": "422"}]},
        {"results": [good(1), {"error": None, "prediction": None, "status": 200}]},
    ],
)
def test_results_that_cannot_be_read(asking, body):
    with pytest.raises(BadReply):
        asking(Service(reply(body))).predict_many("m", [1, 2], on_error="return")


def test_an_item_may_have_its_own_group(asking):
    service = Service(echo)
    asking(service).predict_many("m", [Item(input=1, group="a"), 2], group="g")
    assert [item["group"] for item in json.loads(service.requests[0].content)["items"]] == ["a", "g"]


def test_progress_is_told(asking):
    told = []
    asking(Service(echo)).predict_many("m", range(5), batch_size=2, progress=lambda *so_far: told.append(so_far))
    assert told == [(2, 5), (4, 5), (5, 5)]
    told.clear()
    asking(Service(echo)).predict_many("m", iter(range(3)), progress=lambda *so_far: told.append(so_far))
    assert told == [(3, None)]
    asking(Service(echo)).predict_many("m", [1], progress=True)  # no terminal, no bar


def test_inputs_larger_than_memory_are_read_as_they_go():
    read = 0

    def inputs():
        nonlocal read
        for n in range(10_000):
            read += 1
            yield n

    client = Client(URL, transport=httpx.MockTransport(echo), concurrency=2)
    answers = client.predict_iter("m", inputs(), batch_size=10)
    assert next(answers).label == "0"
    assert read <= 60
    answers.close()
    assert read <= 60


def test_whoever_stops_is_not_kept_waiting():
    """Batches that wait to be sent again are given up at once."""

    def answer(request):
        return echo(request) if 0 in items_of(request) else problem("Overloaded", "busy", 503, Retry_After="30")

    client = Client(URL, transport=httpx.MockTransport(answer))
    began = real_time.monotonic()
    answers = client.predict_iter("m", range(100), batch_size=10)
    assert next(answers).label == "0"
    answers.close()
    assert real_time.monotonic() - began < 5


def test_outcomes(asking):
    def answer(request):
        told = json.loads(request.content)["items"]
        return reply(
            {
                "results": [
                    {"status": 201, "replayed": False, "outcome": {**OUTCOME, "label": one["label"]}, "error": None}
                    if one["label"] != "x"
                    else {**bad("InvalidRequest", "label: no", 422), "outcome": None}
                    for one in told
                ]
            }
        )

    service = Service(answer)
    told = [{"id": "1", "label": str(n)} for n in range(3)] + [{"id": "1", "label": "x"}, "no outcome"]
    done = asking(service).add_outcomes(told, on_error="return", batch_size=2, idempotency_key="run")
    assert [one.label for one in done[:3]] == ["0", "1", "2"]
    assert [str(one) for one in done[3:]] == [
        "outcome 3: label: no",
        "outcome 4: an outcome is a NewOutcome, or an object with the keys id and label",
    ]
    assert {request.headers["idempotency-key"] for request in service.requests} == {"run-0-2", "run-2-2"}
    with pytest.raises(InvalidRequest, match="outcome 3"):
        asking(service).add_outcomes(told)


@pytest.mark.parametrize(
    "options",
    [{"batch_size": 0}, {"timeout": 0}, {"concurrency": 0}, {"on_error": "ignore"}, {"idempotency_key": "a b"}],
)
def test_options_that_make_no_sense(asking, options):
    with pytest.raises((ValueError, InvalidRequest)):
        asking(Service(echo)).predict_many("m", [1], **options)
