"""Eight people at once over HTTP, none of them well behaved; and a checker that notices what it is there to notice."""

import asyncio

import pytest

from demur.review import cases, queue
from demur.serve.web.review.app import console_app
from demur.serve.web.review.service import ReviewService
from demur.traffic import log
from tests.conftest import entry, new_case, resolve
from tests.review.simulation import Habits, broken_promises, configured, held_cases, review_all, served

LEASE = 0.6
CASES = 150


@pytest.mark.slow
def test_every_case_is_resolved_once_and_held_by_one_whatever_its_reviewers_do(database):
    config = configured(lease_seconds=LEASE, undo_seconds=0.3)
    held_cases(database, CASES, several=0.25)
    with served(
        console_app(config, database), sweep=ReviewService(config, database).sweep, every_seconds=0.1
    ) as address:
        told = asyncio.run(review_all(address, reviewers=8, habits=Habits(), lease_seconds=LEASE, patience_seconds=60))
    with database.transaction() as connection:
        assert broken_promises(connection, told) == []
        assert cases.backlog(connection).open == 0
    for kind in ("vanish", "dawdle", "linger", "give_back", "repeat", "regret", "plainly"):
        assert told.happened[kind] > 0, kind
    assert told.lost
    assert len(told.accepted) > CASES


@pytest.fixture
def resolved(database):
    """A case that went the plain way."""
    one = entry()
    with database.transaction() as connection:
        log.append(connection, [one])
        queue.enqueue(connection, [new_case(one)])
        resolve(connection, one.record.id, "ada", "7")
    return one.record.id


def test_the_checker_has_nothing_to_say_of_a_case_that_went_well(database, resolved):
    with database.transaction() as connection:
        assert broken_promises(connection) == []


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        (
            "insert into review_events (case_id, actor, from_status, to_status, token)"
            " values (%s, 'bob', 'answered', 'resolved', 1)",
            "resolved 2 times",
        ),
        (
            "insert into review_events (case_id, actor, from_status, to_status, token)"
            " values (%s, 'bob', 'waiting', 'claimed', 1)",
            "while it was resolved",
        ),
        ("insert into outcomes (record_id, label, source) values (%s, '\"7\"', 'review')", "its outcomes are"),
        ("update review_opinions set reviewer = 'bob' where case_id = %s", "its answers are not its opinions"),
        ("delete from review_opinions where case_id = %s", "its answers are not its opinions"),
    ],
)
def test_the_checker_notices_what_must_not_be(database, resolved, statement, complaint):
    with database.transaction() as connection:
        connection.execute(statement, (resolved,))
        assert complaint in " ".join(broken_promises(connection))


def test_the_checker_notices_a_case_in_two_hands(database):
    one = entry()
    with database.transaction() as connection:
        log.append(connection, [one])
        queue.enqueue(connection, [new_case(one)])
        queue.claim(connection, one.record.id, "ada", lease_seconds=60)
        connection.execute(
            "insert into review_events (case_id, actor, from_status, to_status, token)"
            " values (%s, 'bob', 'claimed', 'claimed', 2)",
            (one.record.id,),
        )
        assert "bob got it while ada had it" in " ".join(broken_promises(connection))
