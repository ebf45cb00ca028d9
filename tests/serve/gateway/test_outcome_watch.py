"""Waiting for what becomes of a prediction: told at once, told late when a notice is lost, and nothing is left over."""

import asyncio
import gc
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import psycopg
import pytest
import uvicorn
from uuid_utils.compat import uuid7

from demur.review import queue, settling
from demur.serve.contract.batching import Overloaded
from demur.serve.gateway.outcome_watch import MOST_WAITING, OutcomeWatch
from demur.serve.web.native.app import gateway_app
from demur.traffic import log
from demur.traffic.log import RecordNotFound
from tests.conftest import entry, new_case, resolve
from tests.serve.conftest import make_handler

NEVER = 3600.0
"""Seconds: a test that waits for so long has failed."""

PATIENCE = 60.0
"""Seconds within which everything that is to happen has happened."""


@pytest.fixture
def held(database):
    """Three predictions that wait for a person."""
    entries = [entry() for _ in range(3)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
    return [one.record.id for one in entries]


@pytest.fixture
def waiter(quickstart, database):
    """A gateway's handler and its watch. It looks so rarely that whoever is told was told by a notice."""
    watches = []

    def made(look_seconds=NEVER):
        handler = make_handler(quickstart, {}, database)
        handler.inquiries._outcome_watch = OutcomeWatch(database.dsn, look_seconds=look_seconds)
        watches.append(handler.inquiries._outcome_watch)
        return handler, handler.inquiries._outcome_watch

    yield made
    for watch in watches:
        assert not watch._waiters
        if watch._listener is not None:
            watch._listener.join(PATIENCE)


def tell(database, record_id, label="7"):
    with database.transaction() as connection:
        log.add_outcome(connection, record_id, label=label, source="lab", author=None)


async def listening(database, n=1):
    """Come back when somebody listens at the database."""
    await eventually(lambda: len(listeners(database)) == n)


def listeners(database):
    """The server processes of the connections that listen."""
    with database.transaction() as connection:
        return [
            row[0]
            for row in connection.execute(
                "select pid from pg_stat_activity where application_name = 'demur-outcomes' and state = 'idle'"
                " and query like '%from outcomes%'"
            )
        ]


async def eventually(true):
    until = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


def test_whoever_waits_is_told_of_this_record_alone(waiter, database, held):
    handler, watch = waiter()

    async def main():
        first, twin, other = (
            asyncio.create_task(handler.inquiries.prediction(one, wait_seconds=NEVER))
            for one in (held[0], held[0], held[1])
        )
        await listening(database)
        tell(database, held[2])
        tell(database, held[0], "3")
        seen = await asyncio.wait_for(asyncio.gather(first, twin), PATIENCE)
        assert [one["outcome"]["label"] for one in seen] == ["3", "3"]
        assert (other.done(), len(watch)) == (False, 1)
        tell(database, held[1])
        await asyncio.wait_for(other, PATIENCE)
        assert (len(watch), dict(watch._waiters)) == (0, {})

    asyncio.run(main())


def test_news_while_it_is_looked_are_in_the_answer(waiter, database, held, monkeypatch):
    handler, _ = waiter()
    look, told = log.outcomes_of, []

    def look_just_before_it_is_told(connection, record_id):
        seen = look(connection, record_id)
        if not told:
            told.append(tell(database, record_id, "3"))
        return seen

    monkeypatch.setattr(log, "outcomes_of", look_just_before_it_is_told)
    seen = asyncio.run(asyncio.wait_for(handler.inquiries.prediction(held[0], wait_seconds=NEVER), PATIENCE))
    assert seen["outcome"]["label"] == "3"


def test_an_outcome_of_a_transaction_that_is_not_committed_is_no_news(waiter, database, held):
    handler, _ = waiter()

    async def main():
        waits = asyncio.create_task(handler.inquiries.prediction(held[0], wait_seconds=NEVER))
        await listening(database)
        with database.transaction() as connection:
            log.add_outcome(connection, held[0], label="1", source="lab", author=None)
            connection.rollback()
        tell(database, held[0], "2")
        assert [one["label"] for one in (await asyncio.wait_for(waits, PATIENCE))["outcomes"]] == ["2"]

    asyncio.run(main())


def answered(database, case_id):
    with database.transaction() as connection:
        resolve(connection, case_id, "ada", "8")


def withdrawn(database, case_id):
    with database.transaction() as connection:
        queue.withdraw(connection, case_id, "ada", why="a test")


def expired(database, case_id):
    with database.transaction() as connection:
        connection.execute("update review_items set due_at = clock_timestamp() where id = %s", (case_id,))
    with database.transaction() as connection:
        settling.sweep(connection, settling.Settlement(at_due="unanswered"))


@pytest.mark.parametrize(
    ("end", "status", "label"),
    [(answered, "resolved", "8"), (withdrawn, "withdrawn", None), (expired, "expired", None)],
)
def test_a_review_that_ends_is_news_as_well(waiter, database, held, end, status, label):
    handler, _ = waiter()

    async def main():
        waits = asyncio.create_task(handler.inquiries.prediction(held[0], wait_seconds=NEVER))
        await listening(database)
        end(database, held[0])
        seen = await asyncio.wait_for(waits, PATIENCE)
        assert (seen["review"]["status"], seen["outcome"] and seen["outcome"]["label"]) == (status, label)
        assert (
            await asyncio.wait_for(handler.inquiries.prediction(held[0], wait_seconds=NEVER), PATIENCE) == seen
        )  # at once

    asyncio.run(main())


def test_what_is_known_already_is_told_at_once(waiter, database, held):
    handler, watch = waiter()
    tell(database, held[0])
    with database.transaction() as connection:
        resolve(connection, held[1], "ada", "8")

    async def main():
        for one in held[:2]:
            assert (await asyncio.wait_for(handler.inquiries.prediction(one, wait_seconds=NEVER), PATIENCE))["outcome"]
        with pytest.raises(RecordNotFound):
            await handler.inquiries.prediction(uuid7(), wait_seconds=NEVER)
        assert (len(watch), watch._listener) == (0, None)  # nobody had to listen

    asyncio.run(main())


def test_after_the_wait_what_is_there_is_told(waiter, held):
    handler, watch = waiter()
    seen = asyncio.run(handler.inquiries.prediction(held[0], wait_seconds=0.05))
    assert (seen["outcome"], seen["review"]["status"], len(watch)) == (None, "waiting", 0)


def test_a_lost_notice_costs_a_look_and_not_the_answer(waiter, database, held):
    handler, _ = waiter(look_seconds=0.2)

    async def main():
        waits = asyncio.create_task(handler.inquiries.prediction(held[0], wait_seconds=NEVER))
        await listening(database)
        with database.transaction() as connection:  # nobody is told
            connection.execute(
                "insert into outcomes (record_id, label, source) values (%s, to_json('9'::text), 'lab')", (held[0],)
            )
        assert (await asyncio.wait_for(waits, PATIENCE))["outcome"]["label"] == "9"

    asyncio.run(main())


def test_a_listener_whose_connection_is_killed_comes_back_and_has_missed_nothing(waiter, database, held, caplog):
    handler, watch = waiter()

    async def main():
        waits = [asyncio.create_task(handler.inquiries.prediction(one, wait_seconds=NEVER)) for one in held]
        await listening(database)
        for number, one in enumerate(held):
            [pid] = listeners(database)
            with database.transaction() as connection:
                connection.execute("select pg_terminate_backend(%s)", (pid,))
            tell(database, one)  # perhaps nobody listens now
            assert (await asyncio.wait_for(waits[number], PATIENCE))["outcome"]
            if one != held[-1]:
                await eventually(lambda killed=pid: listeners(database) not in ([], [killed]))
        assert len(watch) == 0

    asyncio.run(main())
    assert "outcomes cannot be listened for" in caplog.text


def test_a_thread_and_a_connection_are_there_only_while_somebody_waits(waiter, database, held):
    handler, watch = waiter(look_seconds=0.1)

    async def main():
        for _ in range(2):
            waits = asyncio.create_task(handler.inquiries.prediction(held[0], wait_seconds=NEVER))
            await listening(database)
            waits.cancel()
            await eventually(lambda: len(watch) == 0 and watch._listener is None)
            await listening(database, n=0)

    asyncio.run(main())


def test_thousands_wait_on_one_connection_and_one_thread(waiter, database, held):
    _, watch = waiter()
    n = MOST_WAITING

    async def wait(record_id):
        with watch.waiting(record_id) as news:
            await news(NEVER)

    async def main():
        before = set(threading.enumerate())
        waits = [asyncio.create_task(wait(held[at % 2])) for at in range(n)]
        await listening(database)
        assert (len(watch), len(set(threading.enumerate()) - before)) == (n, 1)
        tell(database, held[0])
        await eventually(lambda: len(watch) == n // 2)
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        assert (len(watch), dict(watch._waiters)) == (0, {})

    asyncio.run(main())


def test_too_many_are_told_to_come_back_without_waiting(quickstart, database, held):
    handler = make_handler(quickstart, {}, database)
    handler.inquiries._outcome_watch = watch = OutcomeWatch(database.dsn, most=2)

    async def main():
        waits = [asyncio.create_task(handler.inquiries.prediction(held[0], wait_seconds=NEVER)) for _ in range(2)]
        await eventually(lambda: len(watch) == 2)
        with pytest.raises(Overloaded, match="2 requests wait at this gateway already"):
            await handler.inquiries.prediction(held[0], wait_seconds=1)
        assert (await handler.inquiries.prediction(held[0]))["outcome"] is None
        await handler.close()  # lets go of everybody
        assert [one["outcome"] for one in await asyncio.wait_for(asyncio.gather(*waits), PATIENCE)] == [None, None]

    asyncio.run(main())


@pytest.mark.parametrize("wait", ["-1", "60.1", "nan", "inf", "soon", ""])
def test_a_wait_that_is_none_is_refused(client, held, wait):
    response = client.get(f"/v1/predictions/{held[0]}", params={"wait": wait})
    assert response.status_code == 422
    assert response.json()["error"]["message"].startswith("wait: ")


def test_waiting_over_http_and_in_the_document(client, database, held):
    tell(database, held[0])
    assert client.get(f"/v1/predictions/{held[0]}?wait=60").json()["outcome"]["label"] == "7"
    assert client.get(f"/v1/predictions/{held[1]}?wait=0.05").json()["outcome"] is None
    assert client.get(f"/v1/predictions/{uuid7()}?wait=60").status_code == 404
    described = client.get("/openapi.json").json()["paths"]["/v1/predictions/{id}"]["get"]
    [parameter] = [one for one in described["parameters"] if one["name"] == "wait"]
    assert (parameter["schema"]["minimum"], parameter["schema"]["maximum"]) == (0, 60)
    assert "503" in described["responses"]


@contextmanager
def served(app):
    """The app on a port of its own, behind a real server."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def test_a_client_that_goes_away_leaves_nothing_behind(waiter, held):
    handler, watch = waiter()
    with served(gateway_app(handler, max_body_bytes=1024)) as url:

        async def main():
            async with httpx.AsyncClient(base_url=url) as client:
                waits = [asyncio.create_task(client.get(f"/v1/predictions/{one}?wait=60")) for one in held]
                await eventually(lambda: len(watch) == 3)
                waits[0].cancel()
                await eventually(lambda: len(watch) == 2)
            for one in waits:
                one.cancel()
            await eventually(lambda: len(watch) == 0)

        asyncio.run(main())
    asyncio.run(handler.close())
    gc.collect()
    assert not watch._waiters


def test_a_database_that_is_away_is_said_and_waited_for(quickstart, caplog):
    watch = OutcomeWatch("postgresql://127.0.0.1:1/nowhere?connect_timeout=1", look_seconds=0.1)

    async def main():
        with watch.waiting(uuid7()) as news:
            waits = asyncio.ensure_future(news(NEVER))
            await eventually(lambda: "cannot be listened for" in caplog.text)
            watch.close()
            await asyncio.wait_for(waits, PATIENCE)

    asyncio.run(main())
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(watch._dsn)
