"""What is deleted, and what is not, from a real PostgreSQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from uuid_utils.compat import uuid7

from demur.audit.state import retention, runs
from demur.audit.state.retention import forget_records, forgotten_before
from demur.review import queue
from demur.review.item import Kind
from demur.serve.contract.commit import CommitResult, Writing
from demur.serve.gateway import journal
from demur.traffic import failed_requests, log
from demur.traffic.database import Database
from demur.traffic.record import FailedRequest, KeyUse, Record, ShadowDecision
from tests.conftest import entry, new_case, resolve

OLD = datetime(2026, 1, 1, tzinfo=UTC)
CUT = datetime(2026, 2, 1, tzinfo=UTC)
TABLES = (
    "records", "payloads", "outcomes", "shadow_decisions", "idempotency_keys", "review_items", "review_events",
    "review_opinions",
)  # fmt: skip


def write(database: Database, at: datetime, *, asked: Kind | None = None, **changes: Any) -> Record:
    made = entry(created_at=at, **changes)
    case = new_case(made, kind=asked) if asked else None
    [[done]] = journal.commit(database, [Writing(made, case)])
    assert isinstance(done, CommitResult)
    return done.record


def ids(database: Database) -> set[Any]:
    with database.transaction() as connection:
        return {row[0] for row in connection.execute("select id from records").fetchall()}


def test_a_record_goes_with_all_that_hangs_on_it(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    shadow = ShadowDecision(
        artifact="toy-2", prediction="7", confidence=0.5, action="review", reason="unsure", prediction_set=[]
    )
    for n in range(5):
        key = KeyUse(key=f"key {n}", position=0, fingerprint=b"x")
        made = entry(created_at=OLD + timedelta(minutes=n), key=key, model="toy" if n else "retired")
        object.__setattr__(made, "shadow", shadow)
        journal.commit(database, [Writing(made, new_case(made))])
        with database.transaction() as connection:
            resolve(connection, made.record.id, "ada", "7")
    young = write(database, CUT)
    rests: list[None] = []
    gone = forget_records(database, before=CUT, rest=lambda: rests.append(None))
    assert [(each.model, each.records, each.outcomes, each.cases) for each in gone] == [
        ("retired", 1, 1, 1),
        ("toy", 4, 4, 4),
    ]
    assert len(rests) > 3
    assert ids(database) == {young.id}
    with database.transaction() as connection:
        for table in TABLES:
            [(n,)] = connection.execute(f"select count(*) from {table}").fetchall()
            assert n == (1 if table in ("records", "payloads") else 0), table
        assert forgotten_before(connection, "toy") == CUT
        assert forgotten_before(connection, "unknown") is None
        [(n,)] = connection.execute("select sum(records) from forgotten_records where model = 'toy'").fetchall()
    assert n == 4
    assert forget_records(database, before=CUT) == []


def test_what_somebody_still_needs_stays(database: Database) -> None:
    waiting = write(database, OLD, asked=Kind.HELD)
    reported = write(database, OLD + timedelta(days=1))
    at_its_end = write(database, OLD + timedelta(days=2))
    of_another = write(database, OLD + timedelta(days=1), model="another")
    with database.transaction() as connection:
        log.add_outcome(connection, reported.id, label="7", source="api", author=None)
        connection.execute(
            "insert into audit_reports (id, model, since, until, as_of, planned, made_by, command, version, verdict,"
            " summary, document, html) values (%s, 'toy', %s, %s, %s, true, 'x', 'x', 'x', 'kept', '{}', '{}', '')",
            (uuid7(), reported.created_at, at_its_end.created_at, CUT),
        )
    assert sum(each.records for each in forget_records(database, before=CUT)) == 2
    assert ids(database) == {waiting.id, reported.id}
    assert of_another.id not in ids(database)
    with database.transaction() as connection:
        assert len(log.outcomes_of(connection, reported.id)) == 1
        resolve(connection, waiting.id, "ada", "7")
        connection.execute("delete from audit_reports")
    forget_records(database, before=CUT)
    assert ids(database) == set()


def test_what_an_audit_under_way_is_about_stays(database: Database) -> None:
    record = write(database, OLD)
    with database.transaction() as connection:
        runs.ask(connection, "toy", since=OLD, until=OLD + timedelta(days=1), asked_by="ada")
        taken = runs.take(connection, lease_seconds=60)
        assert taken is not None
    assert forget_records(database, before=CUT) == []
    with database.transaction() as connection:
        runs.nothing(connection, taken, "for the test")
    forget_records(database, before=CUT)
    assert record.id not in ids(database)


def test_history_goes_as_a_whole_or_not_at_all(database: Database) -> None:
    record = write(database, OLD, asked=Kind.HELD)
    with pytest.raises(psycopg.errors.CheckViolation, match="is open"), database.transaction() as connection:
        connection.execute("delete from review_items")
    with database.transaction() as connection:
        resolve(connection, record.id, "ada", "7")
    for change in ("delete from review_events", "update review_events set actor = 'eve'"):
        with pytest.raises(psycopg.errors.CheckViolation, match="only ever"), database.transaction() as connection:
            connection.execute(change)
    with database.transaction() as connection:
        connection.execute("delete from review_items")
        assert connection.execute("select count(*) from review_events").fetchall() == [(0,)]


def test_a_key_whose_record_is_gone_can_be_used_anew(database: Database) -> None:
    key = KeyUse(key="k", position=0, fingerprint=b"x")
    first = write(database, OLD, key=key)
    forget_records(database, before=CUT)
    second = write(database, CUT, key=key)
    assert second.id != first.id
    assert ids(database) == {second.id}


def test_open_cases_of_old_records_can_still_be_worked(database: Database) -> None:
    record = write(database, OLD, asked=Kind.HELD)
    forget_records(database, before=CUT)
    with database.transaction() as connection:
        assert queue.claim(connection, record.id, "ada", lease_seconds=60).case_id == record.id


def test_failed_requests_go_with_their_time(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    failures = [
        FailedRequest(
            id=uuid7(),
            created_at=at,
            model="toy",
            group=None,
            status=503,
            reason="http://127.0.0.1:9/v1 cannot be reached",
            retry_after=None,
            passed_to=None,
            request_id=None,
        )
        for at in (*(OLD + timedelta(minutes=n) for n in range(5)), CUT)
    ]
    journal.note_failures(database, failures)
    journal.note_failures(database, failures)  # as after a lost connection
    with database.transaction() as connection:
        assert failed_requests.count(connection, model=None, since=None, until=None)[0].n == 6
    assert forget_records(database, before=CUT) == []
    with database.transaction() as connection:
        [left] = failed_requests.count(connection, model="toy", since=None, until=None)
    assert (left.n, left.first) == (1, CUT)
