"""A database that has stopped keeps nobody waiting, and is used again as soon as it goes on."""

import asyncio
import threading

import pytest

from demur.serve.contract.commit import Writing
from demur.serve.gateway import journal
from demur.serve.gateway.committer import Committer
from demur.traffic import log
from demur.traffic.database import DatabaseUnavailable
from tests.conftest import entry, new_case

LOCKED = "lock table records in access exclusive mode"


def writing():
    one = entry()
    return Writing(one, new_case(one))


def test_who_waits_for_a_database_that_has_stopped_is_told_so(database):
    async def main():
        committer = Committer(database, journal.commit, patience_seconds=0.2)
        stuck, refused, written = writing(), writing(), writing()
        with database.transaction() as connection:
            connection.execute(LOCKED)
            with pytest.raises(DatabaseUnavailable, match=r"has not written a record within 0\.2 s"):
                await committer.commit([stuck])
            with pytest.raises(DatabaseUnavailable, match="has not written"):
                await committer.commit([refused])  # at once: the thread is not free
        while True:
            try:
                ((done,),) = await committer.commit([written])
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
        committer = Committer(database, fail_at_first, patience_seconds=0.01)
        with pytest.raises(DatabaseUnavailable, match="has not written"):
            await committer.commit([writing()])
        go.set()
        while True:
            try:
                return await committer.commit([writing()])
            except DatabaseUnavailable:
                await asyncio.sleep(0.01)

    assert len(asyncio.run(main())) == 1
