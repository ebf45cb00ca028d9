"""Groups of records in which one is refused: the others are written, and pay little for it."""

from contextlib import contextmanager

import pytest

from demur.review.item import NewCase
from demur.serve.contract.commit import BatchWriting, Unwritable, Writing
from demur.serve.gateway import journal
from demur.traffic import log
from demur.traffic.copying import append_columns
from demur.traffic.database import ConnectionLost
from demur.traffic.log import KeyReused
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


def keyed(rows, key="order-1", fingerprint=b"x", **changes):
    """Columns of a whole batch under one Idempotency-Key, all of them before a person."""
    uses = [KeyUse(key=key, position=at, fingerprint=fingerprint) for at in range(rows)]
    columns = block(rows, actions=["review"] * rows, label_probabilities=[1.0] * rows, keys=uses, **changes)
    return BatchWriting(columns, {at: new_case(columns.record(at)) for at in range(rows)})


def counted(database, *tables):
    with database.transaction() as connection:
        return [connection.execute(f"select count(*) from {table}").fetchone()[0] for table in tables]


@pytest.fixture
def copies(monkeypatch):
    """How many rows went to the log in columns."""
    copied = []

    def append(connection, blocks):
        copied.extend(map(len, blocks))
        append_columns(connection, blocks)

    monkeypatch.setattr(journal, "append_columns", append)
    return copied


def test_a_batch_under_a_key_goes_to_the_log_in_columns(database, copies):
    first = keyed(64)
    (told,) = journal.commit(database, [first])
    assert [done.record.id for done in told] == first.columns.ids
    assert copies == [64]
    assert counted(database, "records", "payloads", "review_items", "idempotency_keys") == [64] * 4


@pytest.mark.parametrize("together", [True, False], ids=["in one commit", "in two"])
def test_a_batch_that_comes_twice_is_written_once(database, together, monkeypatch):
    looked, find = [], log.find_by_keys
    monkeypatch.setattr(log, "find_by_keys", lambda at, uses: looked.extend(uses) or find(at, uses))
    first, second = keyed(64), keyed(64)
    beside = BatchWriting(block(20))
    groups = [[first, second, beside]] if together else [[first], [beside, second]]
    told = [results for group in groups for results in journal.commit(database, group)]
    by_rows = {len(results): results for results in told if len(results) == 20}
    assert [done.record.id for done in by_rows[20]] == beside.columns.ids
    once, again = (results for results in told if len(results) == 64)
    assert [done.record.id for done in once] == [done.record.id for done in again] == first.columns.ids
    assert [done.replayed for done in again] == [True] * 64
    assert not any(done.replayed for done in once)
    assert len(looked) == 1  # all rows of a batch have one key
    assert counted(database, "records", "review_items", "idempotency_keys") == [84, 64, 64]


def test_of_a_batch_only_the_rows_that_came_too_late_are_left_out(database):
    before = keyed(10)
    journal.commit(database, [before])
    longer = keyed(30)
    (told,) = journal.commit(database, [longer])
    assert [done.replayed for done in told] == [True] * 10 + [False] * 20
    assert [done.record.id for done in told] == before.columns.ids + longer.columns.ids[10:]
    assert counted(database, "records", "payloads", "review_items") == [30, 30, 30]


def test_another_input_under_the_key_of_a_batch_is_told_to_each_of_its_rows(database):
    journal.commit(database, [keyed(12)])
    other, free = keyed(12, fingerprint=b"y"), keyed(12, key="order-2")
    wrong, right = journal.commit(database, [other, free])
    assert all(isinstance(done, KeyReused) for done in wrong)
    assert [done.record.id for done in right] == free.columns.ids
    assert counted(database, "records", "review_items") == [24, 24]


def test_a_refused_row_under_a_key_leaves_the_key_free(database):
    batch = keyed(12, reasons=["so"] * 5 + ["\0"] + ["so"] * 6)
    (told,) = journal.commit(database, [batch])
    assert [at for at, done in enumerate(told) if isinstance(done, Unwritable)] == [5]
    (again,) = journal.commit(database, [keyed(12)])
    assert [done.replayed for done in again] == [at != 5 for at in range(12)]
    assert counted(database, "records", "review_items", "idempotency_keys") == [12, 12, 12]


def test_word_of_a_batch_under_a_key_may_be_lost(database):
    batch = keyed(12)
    (told,) = journal.commit(Breaking(database), [batch])
    assert [(done.record.id, done.replayed) for done in told] == [(one, False) for one in batch.columns.ids]
    assert counted(database, "records", "review_items", "idempotency_keys") == [12, 12, 12]


def test_an_answer_that_was_erased_under_a_key_is_an_error_of_its_row_alone(database):
    before = keyed(12)
    journal.commit(database, [BatchWriting(before.columns)])
    with database.transaction() as connection:
        connection.execute("delete from payloads where record_id = %s", (before.columns.ids[3],))
        connection.execute("delete from records where id = %s", (before.columns.ids[3],))
    (told,) = journal.commit(database, [keyed(12)])
    assert [at for at, done in enumerate(told) if isinstance(done, Unwritable)] == [3]
    assert "send it again" in str(told[3])


def test_word_may_be_lost_of_a_batch_that_came_twice_at_once(database):
    """The one that was written is new, and the other is a replay, also when both are written again."""
    first, second = keyed(12), keyed(12)
    once, again = journal.commit(Breaking(database), [first, second])
    assert [done.replayed for done in once] == [False] * 12
    assert [done.replayed for done in again] == [True] * 12
    assert [done.record.id for done in once] == [done.record.id for done in again] == first.columns.ids
    assert counted(database, "records", "review_items", "idempotency_keys") == [12, 12, 12]
