"""A database that has stopped keeps nobody waiting, and is used again as soon as it goes on."""

import asyncio
import threading

import pytest

from demur.serve.contract.commit import Writing
from demur.serve.gateway import journal
from demur.serve.gateway.database_calls import DatabaseCalls
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
        calls._patience_seconds = 3600  # now it is refused at once
        with pytest.raises(DatabaseUnavailable, match="has not answered"):
            await asyncio.wait_for(calls.call(["quick"]), timeout=10)
        go.set()
        while True:
            try:
                return await calls.call(["quick"])
            except DatabaseUnavailable:
                await asyncio.sleep(0.01)

    assert asyncio.run(main()) == ["quick"]
