"""Groups of records in which one is refused: the others are written, and pay little for it."""

from contextlib import contextmanager

import pytest

from demur.review.item import NewCase
from demur.serve.contract.commit import BatchWriting, Unwritable, Writing
from demur.serve.gateway import journal
from demur.traffic import log
from demur.traffic.database import ConnectionLost
from demur.traffic.record import KeyUse
from tests.conftest import entry, new_case
from tests.traffic.test_copying import block


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.fixture
def tries(monkeypatch):
    """How many rows there were in each transaction that was begun."""
    begun, commit = [], journal._commit

    def counted(database, items, *more):
        begun.append(sum(1 if isinstance(item, Writing) else len(item) for item in items))
        return commit(database, items, *more)

    monkeypatch.setattr(journal, "_commit", counted)
    return begun


@pytest.mark.parametrize("kind", ["columns", "entries"])
def test_one_record_that_is_refused_is_looked_for_by_halves(database, tries, kind):
    """Written one by one, a group would keep everybody's waiting for as many commits as it has rows."""
    written = block(256, inputs=["a"] * 99 + [nested(300)] + ["a"] * 156)
    items = [BatchWriting(written)] if kind == "columns" else [Writing(one) for one in written.entries()]
    told = [done for results in journal.commit(database, items) for done in results]
    assert [at for at, done in enumerate(told) if isinstance(done, Unwritable)] == [99]
    assert all(done.record.id == written.ids[at] for at, done in enumerate(told) if at != 99)
    with database.transaction() as connection:
        assert set(log.find(connection, written.ids)) == {*written.ids} - {written.ids[99]}
    assert len(tries) < 30


def test_of_several_blocks_one_is_refused_and_its_neighbours_keep_their_cases(database):
    def batch(**changes):
        columns = block(12, actions=["review"] * 12, label_probabilities=[1.0] * 12, **changes)
        cases = {
            at: NewCase(record_id=columns.ids[at], model="toy", created_at=columns.created_at) for at in range(0, 12, 2)
        }
        return BatchWriting(columns, cases)

    batches = [batch(), batch(reasons=["so"] * 4 + ["\0"] + ["so"] * 7), batch()]
    alone = Writing(entry(), None)
    told = journal.commit(database, [*batches, alone])
    assert [[at for at, one in enumerate(results) if isinstance(one, Unwritable)] for results in told] == [
        [],
        [4],
        [],
        [],
    ]
    with database.transaction() as connection:
        found = {row[0] for row in connection.execute("select record_id from review_items").fetchall()}
    assert found == {one.record_id for made in batches for at, one in made.cases.items()} - {batches[1].columns.ids[4]}
    assert len(found) == 17


class Breaking:
    """A database whose connection breaks once, after a commit."""

    def __init__(self, database):
        self._database = database
        self._broke = False

    @contextmanager
    def _breaking(self, connections):
        with connections as connection:
            yield connection
        if not self._broke:
            self._broke = True
            raise ConnectionLost("it broke")

    def transaction(self):
        return self._breaking(self._database.transaction())

    def by_themselves(self):
        return self._breaking(self._database.by_themselves())


@pytest.mark.parametrize("rows", [3, 12])
def test_a_commit_of_which_word_was_lost_is_no_replay(database, rows):
    """Metrics, and the count of the queue's places, would leave out what is told as a replay."""
    columns = block(rows, actions=["review"] * rows, label_probabilities=[1.0] * rows)
    keyed = entry(key=KeyUse(key="k", position=0, fingerprint=b"x"))
    items = [
        BatchWriting(columns, {at: new_case(columns.record(at)) for at in range(rows)}),
        Writing(keyed, new_case(keyed)),
    ]
    told = journal.commit(Breaking(database), items)
    assert [[done.replayed for done in results] for results in told] == [[False] * rows, [False]]
    with database.transaction() as connection:
        for table in ("records", "payloads", "review_items"):
            assert connection.execute(f"select count(*) from {table}").fetchone() == (rows + 1,)
    again = entry(key=KeyUse(key="k", position=0, fingerprint=b"x"))
    ((replay,),) = journal.commit(database, [Writing(again, new_case(again))])
    assert replay.replayed
    assert replay.record.id == keyed.record.id
