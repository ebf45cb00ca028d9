"""Cases of a database that was filled before there were opinions, due times and second looks."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from demur.review import cases, queue, settling
from demur.review.item import ReviewVerdict, Status
from demur.review.queue import REVIEW_MIGRATIONS
from demur.traffic import log
from demur.traffic.database import TRAFFIC_MIGRATIONS, Database, migrate
from tests.conftest import entry

BEFORE = 3
"""The step that brought all that."""

START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def old(empty_dsn):
    """A database as it was then."""
    opened = Database(empty_dsn)
    migrate(opened, [*TRAFFIC_MIGRATIONS, *(step for step in REVIEW_MIGRATIONS if step.version < BEFORE)])
    yield opened
    opened.close()


def put(old, moves, *, kind="held", label=None, lease_seconds=3600, **changes) -> UUID:
    """A case that went through these states, a minute each; `label` is what was said each time."""
    one = entry(created_at=START, **changes)
    id, status = one.record.id, moves[-1]
    with old.transaction() as connection:
        log.append(connection, [one])
        connection.execute(
            "insert into review_items (record_id, model, status, created_at, token, claimed_by, lease_until, kind)"
            " values (%s, 'toy', %s, %s, %s, %s,"
            "   case when %s then clock_timestamp() + make_interval(secs => %s) end, %s)",
            (
                id,
                status,
                START,
                moves.count("claimed"),
                None if status == "waiting" else "ada",
                status == "claimed",
                lease_seconds,
                kind,
            ),
        )
        before = None
        for at, to in enumerate(moves):
            connection.execute(
                "insert into review_events (record_id, at, actor, from_status, to_status, token)"
                " values (%s, %s, %s, %s, %s, %s)",
                (
                    id,
                    START + timedelta(minutes=at),
                    "ada" if at else None,
                    before,
                    to,
                    moves[: at + 1].count("claimed"),
                ),
            )
            before = to
        for said in label or ():
            log.add_outcome(connection, id, label=said, source="review", author="ada")
    return id


def test_old_cases_go_on_where_they_were(old):
    waiting = put(old, ["waiting"], group="north", confidence=0.4)
    given_back = put(old, ["waiting", "claimed", "waiting"], kind="spot_check")
    held = put(old, ["waiting", "claimed"])
    lapsed = put(old, ["waiting", "claimed", "claimed"], lease_seconds=-1)  # the second is of somebody else
    done = put(old, ["waiting", "claimed", "resolved"], label=["7"])
    twice = put(old, ["waiting", "claimed", "resolved"], label=["7", "1"])
    several = put(old, ["waiting", "claimed", "resolved"], label=[["7", "1"]])
    none = put(old, ["waiting", "claimed", "resolved"])  # its outcome was deleted
    migrate(old, [*TRAFFIC_MIGRATIONS, *REVIEW_MIGRATIONS])

    with old.transaction() as connection:
        now = cases.some(connection, [waiting, given_back, held, lapsed, done, twice, several, none])
        said = cases.opinions_of(connection, list(now))
    assert [now[id].status for id in (waiting, given_back, held, lapsed)] == [
        "waiting",
        "waiting",
        "claimed",
        "waiting",
    ]
    assert (now[waiting].group, now[waiting].confidence, now[given_back].kind) == ("north", 0.4, "spot_check")
    assert [now[id].label for id in (done, twice, several, none)] == ["7", "1", ["7", "1"], None]
    assert {now[id].resolution for id in (done, twice, several, none)} == {"agreed"}
    assert [[(one.reviewer, one.label, one.seconds) for one in said[id]] for id in (done, none)] == [
        [("ada", "7", 60)],
        [],
    ]

    seven = ReviewVerdict(label="7", saw_prediction=True)
    with old.transaction() as connection:
        queue.answer(connection, held, "ada", token=1, verdict=seven, undo_seconds=0)
        settling.sweep(connection, settling.Settlement())
        assert cases.case(connection, held).status is Status.RESOLVED
        for _ in range(3):
            claim = queue.claim_next(connection, "bob", lease_seconds=60)
            queue.answer(connection, claim.case_id, "bob", token=claim.token, verdict=seven, undo_seconds=0)
        settling.sweep(connection, settling.Settlement())
        assert cases.backlog(connection).open == 0
        assert {one.status for one in cases.some(connection, list(now)).values()} == {Status.RESOLVED}
