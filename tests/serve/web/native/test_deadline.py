"""A caller's time is limited by its own word: what has not begun by then is not done, and nobody waits longer."""

import asyncio
import json

import pytest
from starlette.testclient import TestClient

from demur.serve.contract.hosts import HostState
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.native.app import gateway_app
from demur.serve.web.native.deadline import PATTERN, DeadlinePassed, seconds_of, within
from tests.serve.conftest import make_handler


class BusyHost:
    """A host that keeps what it is asked until it is let go."""

    def __init__(self, host):
        self.host = host
        self.asked = []
        self.go = asyncio.Event()

    async def state(self) -> HostState:
        return await self.host.state()

    async def decide(self, inputs, groups, draws):
        self.asked.append(len(inputs))
        await self.go.wait()
        return await self.host.decide(inputs, groups, draws)


@pytest.fixture
def busy(quickstart, local_host, database):
    """A handler over a busy host that takes one batch at a time, and the host."""
    host = BusyHost(local_host)
    digits = quickstart.models["digits"]
    batch = digits.host.batch.model_copy(update={"in_flight": 1})
    digits = digits.model_copy(update={"host": digits.host.model_copy(update={"batch": batch})})
    return make_handler(quickstart.model_copy(update={"models": {"digits": digits}}), {"digits": host}, database), host


def body(value):
    return json.dumps({"model": "digits", "input": value}).encode()


def count(database, table="records"):
    with database.transaction() as connection:
        return connection.execute(f"select count(*) from {table}").fetchone()[0]


@pytest.mark.parametrize(("header", "seconds"), [(None, None), ("2", 2.0), ("0.25", 0.25), (".5", 0.5), ("3600", 3600)])
def test_what_the_header_says(header, seconds):
    assert seconds_of(header) == seconds


@pytest.mark.parametrize("header", ["", "0", "-1", "1e3", "nan", "inf", "3601", "2 s", "1,5", " 1", "٣", "1" * 100])
def test_what_the_header_may_not_say(header):
    with pytest.raises(InvalidRequest, match=r"X-Request-Timeout: .* write one such as 2\.5"):
        seconds_of(header)


def test_a_time_limit_of_the_work_itself_is_not_the_callers():
    async def main():
        async def work():
            raise TimeoutError("of another kind")

        with pytest.raises(TimeoutError, match="of another kind"):
            await within(5.0, work())

    asyncio.run(main())


def test_who_waits_too_long_for_a_busy_model_is_told_so_and_nothing_is_recorded(busy, database, clear_digit):
    handler, host = busy

    async def main():
        away = asyncio.create_task(handler.predict(body(clear_digit), None))
        in_time = asyncio.create_task(within(60.0, handler.predict(body(clear_digit), None)))
        while not host.asked:
            await asyncio.sleep(0.01)
        with pytest.raises(DeadlinePassed, match=r"the 0\.05 s of X-Request-Timeout are over"):
            await within(0.05, handler.predict(body(clear_digit), "key"))
        assert host.asked == [1] or host.asked == [2]
        host.go.set()
        first, second = await asyncio.gather(away, in_time)
        return first.record.id, second.record.id

    told = asyncio.run(main())
    assert sum(host.asked) == 2  # what was late never reached the model
    with database.transaction() as connection:
        assert {row[0] for row in connection.execute("select id from records")} == set(told)
    assert count(database, "idempotency_keys") == 0


def test_what_the_model_said_too_late_is_not_recorded(busy, database, clear_digit):
    handler, host = busy

    async def main():
        with pytest.raises(DeadlinePassed):
            await within(0.05, handler.predict(body(clear_digit), None))
        assert host.asked == [1]
        host.go.set()
        return await handler.predict(body(clear_digit), None)

    done = asyncio.run(main())
    with database.transaction() as connection:
        assert [row[0] for row in connection.execute("select id from records")] == [done.record.id]


def test_a_batch_is_given_up_as_a_whole(busy, database, clear_digit):
    handler, host = busy
    items = [{"model": "digits", "input": clear_digit}] * 200

    async def main():
        with pytest.raises(DeadlinePassed):
            await within(2.0, handler.predict_batch(json.dumps({"items": items}).encode(), None))
        host.go.set()
        await handler.predict(body(clear_digit), None)

    asyncio.run(main())
    assert host.asked == [64, 1]
    assert count(database) == 1


def test_over_http(busy, database, clear_digit):
    handler, host = busy
    with TestClient(gateway_app(handler, max_body_bytes=1 << 20)) as client:
        late = client.post("/v1/predict", content=body(clear_digit), headers={"X-Request-Timeout": "0.05"})
        assert (late.status_code, late.json()["error"]["kind"]) == (504, "DeadlinePassed")
        items = json.dumps({"items": [{"model": "digits", "input": clear_digit}]})
        late = client.post("/v1/predict/batch", content=items, headers={"X-Request-Timeout": "0.05"})
        assert (late.status_code, late.json()["error"]["kind"]) == (504, "DeadlinePassed")
        client.portal.call(host.go.set)
        done = client.post("/v1/predict", content=body(clear_digit), headers={"X-Request-Timeout": "30"})
        assert done.status_code == 200
        document = client.get("/openapi.json").json()
    assert count(database) == 1
    for path in ("/v1/predict", "/v1/predict/batch", "/v1/chat/completions"):
        told = document["paths"][path]["post"]
        (header,) = (one for one in told["parameters"] if one["name"] == "X-Request-Timeout")
        assert PATTERN in json.dumps(header["schema"]).replace("\\\\", "\\")
        assert "504" in told["responses"]


def test_a_slow_model_keeps_nobody_waiting_for_another(quickstart, local_host, database, clear_digit):
    digits = quickstart.models["digits"]
    config = quickstart.model_copy(update={"models": {"slow": digits, "digits": digits}})
    slow = BusyHost(local_host)
    handler = make_handler(config, {"slow": slow, "digits": local_host}, database)
    asked = json.dumps({"model": "slow", "input": clear_digit}).encode()

    async def main():
        waiting = [asyncio.create_task(handler.predict(asked, f"slow-{n}")) for n in range(300)]
        while not slow.asked:
            await asyncio.sleep(0.01)
        for n in range(5):
            assert (await handler.predict(body(clear_digit), f"quick-{n}")).record.model == "digits"
        assert not any(one.done() for one in waiting)
        slow.go.set()
        await asyncio.gather(*waiting)

    asyncio.run(main())
    assert count(database) == 305
