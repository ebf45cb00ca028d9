import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from review import queue
from review.item import Kind, Status
from review.queue import ClaimLost, ItemNotFound
from tests.conftest import entry
from traffic import log
from traffic.record import Entry

FOREVER = 3600.0


@pytest.fixture
def held(database):
    """Five held predictions, oldest first."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    entries = [entry(created_at=start + timedelta(minutes=i)) for i in range(5)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [e.record for e in entries])
    return [e.record.id for e in entries]


def run(database, function, *args, **kwargs):
    with database.transaction() as connection:
        return function(connection, *args, **kwargs)


def events(database, record_id):
    with database.transaction() as connection:
        return connection.execute(
            "select actor, from_status, to_status, token from review_events where record_id = %s order by id",
            (record_id,),
        ).fetchall()


def test_an_answer_becomes_an_outcome_and_every_step_is_noted(database, held):
    claim = run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    run(database, queue.answer, held[0], "ada", token=claim.token, label="7")
    assert [(o.label, o.source, o.author) for o in run(database, log.outcomes_of, held[0])] == [("7", "review", "ada")]
    assert run(database, queue.item, held[0]).status is Status.RESOLVED
    assert events(database, held[0]) == [
        (None, None, "waiting", 0),
        ("ada", "waiting", "claimed", 1),
        ("ada", "claimed", "resolved", 1),
    ]


def test_the_oldest_case_comes_first_and_a_released_one_comes_back(database, held):
    first = run(database, queue.claim_next, "ada", lease_seconds=FOREVER)
    second = run(database, queue.claim_next, "bob", lease_seconds=FOREVER)
    assert [first.record_id, second.record_id] == held[:2]
    run(database, queue.release, held[0], "ada", token=first.token)
    assert run(database, queue.claim_next, "bob", lease_seconds=FOREVER).record_id == held[0]


def test_two_people_cannot_hold_the_same_case(database, held):
    run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    with pytest.raises(ClaimLost, match="is with ada"):
        run(database, queue.claim, held[0], "bob", lease_seconds=FOREVER)


def test_claiming_again_prolongs_the_lease_under_the_same_token(database, held):
    first = run(database, queue.claim, held[0], "ada", lease_seconds=10)
    again = run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    assert again.token == first.token
    assert again.lease_until > first.lease_until
    assert len(events(database, held[0])) == 2


def test_a_lease_that_ran_out_frees_the_case_and_its_token_is_worth_nothing(database, held):
    late = run(database, queue.claim, held[0], "ada", lease_seconds=0)
    assert run(database, queue.item, held[0]).status is Status.WAITING
    assert run(database, queue.backlog).waiting == 5
    claim = run(database, queue.claim_next, "bob", lease_seconds=FOREVER)
    assert claim.record_id == held[0]
    with pytest.raises(ClaimLost, match="is with bob"):
        run(database, queue.answer, held[0], "ada", token=late.token, label="7")
    with pytest.raises(ClaimLost):
        run(database, queue.release, held[0], "ada", token=late.token)
    assert run(database, log.outcomes_of, held[0]) == []


def test_a_late_answer_counts_while_nobody_else_has_taken_the_case(database, held):
    late = run(database, queue.claim, held[0], "ada", lease_seconds=0)
    assert run(database, queue.answer, held[0], "ada", token=late.token, label="7").label == "7"


def test_a_resolved_case_cannot_be_claimed_or_answered_again(database, held):
    claim = run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    run(database, queue.answer, held[0], "ada", token=claim.token, label="7")
    with pytest.raises(ClaimLost, match="was resolved by ada"):
        run(database, queue.claim, held[0], "bob", lease_seconds=FOREVER)
    with pytest.raises(ClaimLost, match="was resolved by ada"):
        run(database, queue.answer, held[0], "ada", token=claim.token, label="1")
    assert len(run(database, log.outcomes_of, held[0])) == 1


def test_what_was_not_held_is_not_in_the_queue(database):
    with pytest.raises(ItemNotFound, match="was not held"):
        run(database, queue.claim, uuid4(), "ada", lease_seconds=FOREVER)
    assert run(database, queue.find_item, uuid4()) is None
    assert run(database, queue.claim_next, "ada", lease_seconds=FOREVER) is None


def test_enqueueing_again_changes_nothing(database, held):
    record = run(database, log.find_one, held[0])
    claim = run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    run(database, queue.enqueue, [record])
    assert run(database, queue.item, held[0]).token == claim.token
    assert len(events(database, held[0])) == 2


def test_a_case_to_be_checked_is_worked_like_any_other(database):
    first, second = entry(), entry(action="answer")
    with database.transaction() as connection:
        log.append(connection, [first, second])
        queue.enqueue(connection, [first.record])
        queue.enqueue(connection, [second.record], Kind.SPOT_CHECK)
        kinds = connection.execute("select kind from review_items order by record_id").fetchall()
    assert kinds == [("held",), ("spot_check",)]
    run(database, queue.claim_next, "ada", lease_seconds=FOREVER)
    claim = run(database, queue.claim_next, "ada", lease_seconds=FOREVER)
    assert claim.record_id == second.record.id
    assert run(database, queue.answer, claim.record_id, "ada", token=claim.token, label="7").source == "review"


def test_lists_by_status(database, held):
    run(database, queue.claim, held[1], "ada", lease_seconds=FOREVER)
    run(database, queue.claim, held[2], "bob", lease_seconds=0)
    ids = {
        status: [item.record_id for item in run(database, queue.items, status=status, limit=10)]
        for status in (None, Status.WAITING, Status.CLAIMED, Status.RESOLVED)
    }
    assert ids == {
        None: held,
        Status.WAITING: [held[0], *held[2:]],
        Status.CLAIMED: [held[1]],
        Status.RESOLVED: [],
    }


def test_a_crowd_takes_every_case_once(database):
    entries = [entry() for _ in range(120)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [e.record for e in entries])
    gate = threading.Barrier(8)

    def work(who):
        gate.wait()
        taken = []
        while claim := run(database, queue.claim_next, who, lease_seconds=FOREVER):
            taken.append(claim.record_id)
            run(database, queue.answer, claim.record_id, who, token=claim.token, label="7")
        return taken

    with ThreadPoolExecutor(8) as pool:
        taken = [record_id for part in pool.map(work, map(str, range(8))) for record_id in part]
    assert sorted(taken) == sorted(e.record.id for e in entries)
    assert run(database, queue.backlog).resolved == 120
    with database.transaction() as connection:
        assert connection.execute("select count(*) from outcomes").fetchone() == (120,)


def test_inputs_are_forgotten_when_their_time_is_up_but_not_under_a_reviewer(database):
    past, future = datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(days=1)
    held, resolved, answered, later, forever = (
        Entry(record=entry(action=action).record, input="x", input_expires_at=at)
        for action, at in [("review", past), ("review", past), ("answer", past), ("answer", future), ("answer", None)]
    )
    entries = [held, resolved, answered, later, forever]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [held.record, resolved.record])
        claim = queue.claim(connection, resolved.record.id, "ada", lease_seconds=FOREVER)
        queue.answer(connection, resolved.record.id, "ada", token=claim.token, label="7")
    assert run(database, queue.forget_inputs) == 2
    left = [run(database, log.find_input, e.record.id) for e in entries]
    assert left == ["x", None, None, "x", "x"]
    assert run(database, log.find_one, answered.record.id) == answered.record
