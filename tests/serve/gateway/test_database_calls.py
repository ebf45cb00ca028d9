"""A database that has stopped keeps nobody waiting, and is used again as soon as it goes on."""

import asyncio
import threading
import time

import pytest

from demur.serve.contract.commit import Writing
from demur.serve.gateway import journal
from demur.serve.gateway.database_calls import DatabaseCalls, DatabaseThreads
from demur.serve.gateway.inquiries import ASKED_AT_A_TIME, Inquiries
from demur.serve.gateway.queue_room import QueueRoom
from demur.serve.gateway.replays import Replays
from demur.traffic import log
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.record import KeyUse
from tests.conftest import entry, new_case

KEYS_LOCKED = "lock table idempotency_keys in access exclusive mode"
LOCKED = "lock table records in access exclusive mode"


def writing():
    one = entry()
    return Writing(one, new_case(one))


def test_who_waits_for_a_database_that_has_stopped_is_told_so(database):
    async def main():
        calls = DatabaseCalls(database, journal.commit, done="written a record", patience_seconds=0.2)
        stuck, refused, written = writing(), writing(), writing()
        with database.transaction() as connection:
            connection.execute(LOCKED)
            with pytest.raises(DatabaseUnavailable, match=r"has not written a record within 0\.2 s"):
                await calls.call([stuck])
            with pytest.raises(DatabaseUnavailable, match="has not written"):
                await calls.call([refused])  # at once: the thread is not free
        while True:
            try:
                ((done,),) = await calls.call([written])
                break
            except DatabaseUnavailable:
                await asyncio.sleep(0.01)
        assert done.record == written.entry.record
        return stuck, refused

    stuck, refused = asyncio.run(main())
    with database.transaction() as connection:
        # what was sent is written in the end, whole, and its id was told to nobody
        assert set(log.find(connection, [w.entry.record.id for w in (stuck, refused)])) == {stuck.entry.record.id}
        held = connection.execute("select count(*) from review_items where record_id = %s", (stuck.entry.record.id,))
        assert held.fetchone()[0] == 1


def test_what_fails_while_nobody_waits_for_it_is_no_trouble(database):
    go = threading.Event()

    def fail_at_first(opened, writings):
        if not go.is_set():
            go.wait()
            raise DatabaseUnavailable("it went away")
        return journal.commit(opened, writings)

    async def main():
        calls = DatabaseCalls(database, fail_at_first, done="written a record", patience_seconds=0.01)
        with pytest.raises(DatabaseUnavailable, match="has not written"):
            await calls.call([writing()])
        go.set()
        while True:
            try:
                return await calls.call([writing()])
            except DatabaseUnavailable:
                await asyncio.sleep(0.01)

    assert len(asyncio.run(main())) == 1


def test_look_ups_of_keys_do_not_wait_for_a_database_that_has_stopped(database):
    def use(name):
        return KeyUse(key=name, position=0, fingerprint=b"x" * 32)

    async def main():
        replays = Replays(database, patience_seconds=0.2)
        with database.transaction() as connection:
            connection.execute(KEYS_LOCKED)
            for name in ("a", "b"):
                with pytest.raises(DatabaseUnavailable, match=r"has not looked up an Idempotency-Key within 0\.2 s"):
                    await asyncio.wait_for(replays.of(use(name)), timeout=10)
        while True:
            try:
                return await replays.of(use("c"))
            except DatabaseUnavailable:
                await asyncio.sleep(0.01)

    assert asyncio.run(main()) == {}


def test_one_thread_that_is_stuck_leaves_the_other_and_two_leave_none(database):
    go = threading.Event()

    def look_up(_database, group):
        if group != ["quick"]:
            go.wait()
        return group

    async def main():
        calls = DatabaseCalls(database, look_up, done="answered", threads=2, patience_seconds=0.2)
        for stuck in range(2):
            with pytest.raises(DatabaseUnavailable, match="has not answered"):
                await calls.call(["slow"])
            if not stuck:
                assert await calls.call(["quick"]) == ["quick"]
        calls._threads._patience_seconds = 3600  # now it is refused at once
        with pytest.raises(DatabaseUnavailable, match="has not answered"):
            await asyncio.wait_for(calls.call(["quick"]), timeout=10)
        go.set()
        while True:
            try:
                return await calls.call(["quick"])
            except DatabaseUnavailable:
                await asyncio.sleep(0.01)

    assert asyncio.run(main()) == ["quick"]


def test_the_wait_for_a_thread_counts(database):
    """The database answers, but slowly: who comes last is told so in time, and nothing is begun for them."""
    begun = []

    async def main():
        threads = DatabaseThreads(database, threads=1, name="slow", patience_seconds=1.5)

        async def ask(place):
            return await threads.run(lambda _: begun.append(place) or time.sleep(0.6) or place, done="answered")

        results = await asyncio.gather(*(ask(place) for place in range(6)), return_exceptions=True)
        assert threads._stuck == 0
        await asyncio.sleep(0)
        return results

    results = asyncio.run(main())
    assert results[0] == 0
    assert isinstance(results[-1], DatabaseUnavailable)
    assert begun == list(range(len(begun)))
    assert len(begun) < 6


def test_what_has_ended_is_no_longer_stuck_however_late_that_is_seen(database):
    """The event loop itself stands still for longer than the work may take."""

    async def main():
        threads = DatabaseThreads(database, threads=1, name="late", patience_seconds=0.3)
        asked = asyncio.create_task(threads.run(lambda _: "done", done="answered"))
        await asyncio.sleep(0)
        time.sleep(0.8)
        return await asked, threads

    result, threads = asyncio.run(main())
    assert result == "done"
    assert (threads._free, threads._stuck) == (1, 0)


def test_no_thread_is_lost_where_none_can_be_started(database, monkeypatch):
    async def main():
        threads = DatabaseThreads(database, threads=1, name="lost", patience_seconds=20)
        with monkeypatch.context() as patched:
            patched.setattr(threads._threads, "submit", _no_thread)
            with pytest.raises(RuntimeError, match="can't start"):
                await threads.run(lambda _: None, done="answered")
        return await asyncio.wait_for(threads.run(lambda _: "done", done="answered"), timeout=10)

    assert asyncio.run(main()) == "done"


def test_no_thread_is_lost_to_a_stop_iteration(database):
    async def main():
        threads = DatabaseThreads(database, threads=1, name="lost", patience_seconds=20)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await threads.run(lambda _: next(iter([])), done="answered")
        return await asyncio.wait_for(threads.run(lambda _: "done", done="answered"), timeout=10)

    assert asyncio.run(main()) == "done"


def _no_thread(*_):
    raise RuntimeError("can't start new thread")


def test_who_waits_for_a_thread_is_refused_when_all_are_stuck(database):
    go = threading.Event()

    async def main():
        threads = DatabaseThreads(database, threads=1, name="stuck", patience_seconds=0.2)
        asked = [asyncio.create_task(threads.run(lambda _: go.wait(), done="answered")) for _ in range(3)]
        done, _ = await asyncio.wait(asked, timeout=20)
        assert len(done) == 3
        assert {type(one.exception()) for one in done} == {DatabaseUnavailable}
        go.set()

    asyncio.run(main())


@pytest.mark.parametrize("leaves", ["while it is asked", "while it waits", "as its turn comes"])
def test_who_stops_waiting_leaves_the_thread_to_others(database, leaves):
    go = threading.Event()

    async def main():
        threads = DatabaseThreads(database, threads=1, name="left", patience_seconds=20)
        running = asyncio.create_task(threads.run(lambda _: go.wait(), done="answered"))
        waiting = asyncio.create_task(threads.run(lambda _: "waited", done="answered"))
        last = asyncio.create_task(threads.run(lambda _: "last", done="answered"))
        await asyncio.sleep(0.1)
        leaver = running if leaves == "while it is asked" else waiting
        if leaves == "as its turn comes":
            turn = threads._waiting[0]
            go.set()
            while not turn.done():
                await asyncio.sleep(0)
        leaver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaver
        go.set()
        assert await asyncio.wait_for(last, timeout=20) == "last"
        assert await asyncio.wait_for(threads.run(lambda _: "new", done="answered"), timeout=20) == "new"
        return threads

    threads = asyncio.run(main())
    assert (threads._free, threads._stuck, len(threads._waiting)) == (1, 0, 0)


def test_a_call_that_nobody_waits_for_counts_as_stuck(database):
    go = threading.Event()

    async def main():
        threads = DatabaseThreads(database, threads=1, name="left", patience_seconds=0.2)
        running = asyncio.create_task(threads.run(lambda _: go.wait(), done="answered"))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(DatabaseUnavailable, match="has not answered"):
            await asyncio.wait_for(threads.run(lambda _: None, done="answered"), timeout=20)
        go.set()

    asyncio.run(main())


def test_questions_and_outcomes_do_not_wait_for_a_database_that_has_stopped(quickstart, database):
    one = entry(model="digits")
    with database.transaction() as connection:
        log.append(connection, [one])
    record_id = one.record.id
    told = b'{"label": "3"}'

    async def main():
        inquiries = Inquiries(quickstart, {}, database, QueueRoom(None))
        inquiries._threads._patience_seconds = 0.5
        asked = [
            lambda: inquiries.prediction(record_id),
            lambda: inquiries.add_outcome(record_id, told),
            lambda: inquiries.erase(record_id, by_whom="ada"),
        ] * ASKED_AT_A_TIME
        with database.transaction() as connection:
            connection.execute("lock table records, outcomes, payloads in access exclusive mode")
            results = await asyncio.wait_for(asyncio.gather(*(ask() for ask in asked), return_exceptions=True), 20)
            assert {type(result) for result in results} == {DatabaseUnavailable}
        while True:
            try:
                return await inquiries.prediction(record_id)
            except DatabaseUnavailable:
                await asyncio.sleep(0.05)

    assert asyncio.run(main())["id"] == str(record_id)
