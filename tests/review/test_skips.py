"""Cases that somebody does not want again: they never come by themselves, and one that nobody wants is noticed."""

from datetime import UTC, datetime, timedelta

import pytest

from demur.review import ahead, disagreement, given_back, queue, settling, skips
from demur.review.cases import case, events_of
from demur.review.item import EVERYTHING, ReviewerScope, ReviewVerdict, Status
from demur.review.queue import ClaimLost
from demur.review.statistics import StatisticsWindow
from demur.traffic import log
from tests.conftest import entry, new_case, resolve


def run(database, call, *args, **rest):
    with database.transaction() as connection:
        return call(connection, *args, **rest)


@pytest.fixture
def held(database):
    start = datetime.now(UTC) - timedelta(minutes=9)
    entries = [entry(created_at=start + timedelta(minutes=at)) for at in range(2)]
    run(database, log.append, entries)
    run(database, queue.enqueue, [new_case(one) for one in entries])
    return [one.record.id for one in entries]


def skip(database, case_id, name, reason=None):
    claim = run(database, queue.claim, case_id, name, lease_seconds=60)
    run(database, skips.skip, case_id, name, token=claim.token, reason=reason)


def next_for(database, name, **rest):
    found = run(database, queue.claim_next, name, lease_seconds=60, **rest)
    return found and found.case_id


def test_it_never_comes_by_itself_again(database, held):
    first, second = held
    skip(database, first, "ada", "it is about my own parcel")
    assert run(database, case, first).status is Status.WAITING
    assert run(database, events_of, first)[-1].detail == {"why": "skipped: it is about my own parcel"}
    assert next_for(database, "ada") == second
    assert next_for(database, "ada") is None
    assert next_for(database, "ada", again=True) is None
    assert run(database, ahead.claim_ahead, "ada", lease_seconds=60) is None
    assert run(database, given_back.left_for, "ada") is None
    assert next_for(database, "bob") == first


def test_whoever_opens_it_by_hand_gets_it_and_giving_it_back_does_not_bring_it(database, held):
    skip(database, held[0], "ada")
    claim = run(database, queue.claim, held[0], "ada", lease_seconds=60)
    run(database, queue.release, held[0], "ada", token=claim.token)
    assert next_for(database, "ada") == held[1]


def test_only_whoever_holds_it_skips_it(database, held):
    claim = run(database, queue.claim, held[0], "ada", lease_seconds=60)
    with pytest.raises(ClaimLost):
        run(database, skips.skip, held[0], "bob", token=claim.token, reason=None)
    assert next_for(database, "bob") == held[1]
    assert run(database, skips.skipped_by_all, EVERYTHING, {}) == []


def window():
    return StatisticsWindow(
        since=datetime.now(UTC) - timedelta(hours=1), until=datetime.now(UTC) + timedelta(hours=1), scope=EVERYTHING
    )


def test_they_are_counted_for_each_person(database, held):
    for name in ("ada", "ben"):
        skip(database, held[0], name)
    run(database, resolve, held[1], "ada", "7")
    people = run(database, disagreement.work, window())
    assert [(one.reviewer, one.opinions, one.skipped) for one in people] == [("ada", 1, 1), ("ben", 0, 1)]


PEOPLE = {"ada": EVERYTHING, "bob": ReviewerScope(adjudicates=False), "other": ReviewerScope(models=("other",))}


def test_a_case_that_everybody_skipped_is_found(database, held):
    skip(database, held[0], "ada", "unclear")
    assert run(database, skips.skipped_by_all, EVERYTHING, PEOPLE) == []
    skip(database, held[0], "bob")
    (found,) = run(database, skips.skipped_by_all, EVERYTHING, PEOPLE)  # the third sees none of these
    assert (found.id, found.people, found.reasons) == (held[0], ["ada", "bob"], ["unclear"])
    assert run(database, skips.skipped_by_all, ReviewerScope(models=("other",)), PEOPLE) == []
    run(database, resolve, held[0], "ada", "7")  # she opened it after all
    assert run(database, skips.skipped_by_all, EVERYTHING, PEOPLE) == []


def test_whoever_does_not_decide_is_not_waited_for_where_others_disagree(database, held):
    with database.transaction() as connection:
        connection.execute("update review_items set opinions_wanted = 1 where id = %s", (held[0],))
    claim = run(database, queue.claim, held[0], "bob", lease_seconds=60)
    verdict = ReviewVerdict(label=None, reason="no", saw_prediction=True)
    run(database, queue.answer, held[0], "bob", token=claim.token, verdict=verdict, undo_seconds=0)
    run(database, settling.settle, settling.Settlement(), held[0])
    assert run(database, case, held[0]).status is Status.ADJUDICATION
    skip(database, held[0], "ada")
    assert run(database, case, held[0]).status is Status.ADJUDICATION
    assert [one.id for one in run(database, skips.skipped_by_all, EVERYTHING, PEOPLE)] == [held[0]]


def test_where_nobody_is_named_those_who_answered_lately_are_waited_for(database, held):
    run(database, resolve, held[1], "bob", "7")
    skip(database, held[0], "ada")
    assert run(database, skips.skipped_by_all, EVERYTHING, {}) == []
    skip(database, held[0], "bob")
    assert len(run(database, skips.skipped_by_all, EVERYTHING, {})) == 1
