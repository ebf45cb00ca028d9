"""A newer demur at the data of an older one, and an older one that is still writing meanwhile."""

import threading
from uuid import UUID

import pytest

from demur.serve.contract.commit import Writing
from demur.serve.database.opening import MIGRATIONS
from demur.serve.gateway.journal import commit
from demur.traffic import log
from demur.traffic.database import TRAFFIC_MIGRATIONS, Database, Migration, UnknownSchema, migrate
from tests.conftest import entry, new_case

pytestmark = pytest.mark.slow

FIRST_RECORD = (
    "insert into records (id, created_at, model, artifact, prediction, top_labels, top_probabilities, prediction_set,"
    " scores, confidence, action, reason, label_probability, timings)"
    " values (%s, now(), 'digits', 'digits-1', %s, '{7,1}', '{0.6,0.3}', '{7}', '{\"entropy\": 0.5}', 0.6, 'review',"
    " 'confidence 0.6 is below 0.93', 1, '{\"model\": 1.5}')"
)
"""What the first demur wrote; its labels were no JSON yet."""


@pytest.mark.parametrize("steps", range(1, len(TRAFFIC_MIGRATIONS) + 1))
def test_a_log_of_any_age_is_brought_up_to_date(steps, empty_dsn):
    old = [step for step in MIGRATIONS if step.version <= (steps if step.room == "traffic" else 1)]
    database = Database(empty_dsn)
    migrate(database, [step for step in old if step.room != "audit"])
    ids = [entry().record.id for _ in range(3)]
    seven = "7" if steps == 1 else '"7"'
    with database.transaction() as connection:
        for at, id in enumerate(ids):
            connection.execute(FIRST_RECORD, (id, seven))
            connection.execute("insert into payloads (record_id, input) values (%s, '[[0, 1]]')", (id,))
            connection.execute(
                "insert into review_items (record_id, model, status, created_at)"
                " values (%s, 'digits', 'waiting', now())",
                (id,),
            )
            if at == 0:
                connection.execute(
                    "insert into outcomes (record_id, label, source) values (%s, %s, 'lab')", (id, seven)
                )
    migrate(database, MIGRATIONS)
    with database.transaction() as connection:
        for id in ids:
            found = log.find_one(connection, id)
            assert (found.prediction, found.top_labels, found.confidence) == ("7", ["7", "1"], 0.6)
    new = entry(model="digits")
    ((done,),) = commit(database, [Writing(new, new_case(new))])
    assert not done.replayed
    database.close()


def test_an_older_gateway_goes_on_writing_while_a_newer_one_migrates(database):
    """As steps so far are: a table, a column that may be null, an index."""
    stop, written, failed = threading.Event(), [], []

    def write():
        while not stop.is_set():
            one = entry()
            ((done,),) = commit(database, [Writing(one, new_case(one))])
            (failed if isinstance(done, Exception) else written).append(one.record.id)

    writing = threading.Thread(target=write)
    writing.start()
    newer = Database(database.dsn)
    try:
        while len(written) < 20:
            stop.wait(0.01)
        step = Migration(
            room="traffic",
            version=99,
            sql="create table more (id integer); alter table records add column more text;"
            " create index records_by_more on records (more)",
        )
        migrate(newer, [*MIGRATIONS, step])
        before = len(written)
        while len(written) < before + 20:
            stop.wait(0.01)
    finally:
        stop.set()
        writing.join()
    assert failed == []
    with newer.transaction() as connection:
        found: set[UUID] = {
            row[0] for row in connection.execute("select id from records where more is null").fetchall()
        }
    assert found == set(written)
    with pytest.raises(UnknownSchema, match="run the newer demur"):
        migrate(database, MIGRATIONS)  # what an old process does that starts now
    newer.close()
