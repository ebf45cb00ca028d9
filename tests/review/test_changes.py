"""Changing many cases in one go: what is changed, what is left, and who gets what is kept for somebody."""

from datetime import UTC, datetime, timedelta

import pytest

from demur.review import cases, changes, disputes, queue, search, settling, skips
from demur.review.ahead import claim_ahead
from demur.review.changes import CaseChange
from demur.review.item import EVERYTHING, ReviewerScope, ReviewVerdict, Status
from demur.review.people import reviewers_so_far
from demur.review.queue import NotYours
from demur.review.search import CaseSearch
from demur.review.settling import Settlement
from demur.traffic import log
from tests.conftest import entry, new_case, resolve

START = datetime(2026, 11, 1, tzinfo=UTC)
LATER = datetime(2036, 11, 1, tzinfo=UTC)
WITHDRAW = CaseChange(withdraw=True, values={})


@pytest.fixture
def held(database):
    """Six cases, the oldest first; the last one is of another model."""
    entries = [entry(model="other" if i == 5 else "toy", created_at=START + timedelta(hours=i)) for i in range(6)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
    return [one.record.id for one in entries]


@pytest.fixture
def change(database, held):
    """Change cases by their places; return what was changed, what was so before, and what was left and why."""

    def change(places, told, *, lead="lea", why="a reason", **rest):
        with database.transaction() as connection:
            ids = [held[place] for place in places]
            done = changes.change_cases(connection, ids, lead, told, why=why, **rest)
        left = {held.index(one.case_id): one.why for one in done.left}
        return [held.index(one) for one in done.changed], [held.index(one) for one in done.unchanged], left

    return change


def keep_for(person, **scope):
    return CaseChange(values={"assigned_to": person}, assignee=ReviewerScope(**scope))


def say(database, case_id, name, *, undo_seconds=0.0, opinions=1):
    with database.transaction() as connection:
        connection.execute("update review_items set opinions_wanted = %s where id = %s", (opinions, case_id))
        claim = queue.claim(connection, case_id, name, lease_seconds=60)
        verdict = ReviewVerdict(label="7", saw_prediction=True)
        queue.answer(connection, case_id, name, token=claim.token, verdict=verdict, undo_seconds=undo_seconds)
        settling.settle(connection, Settlement(), case_id)


def take(database, name, **more):
    with database.transaction() as connection:
        claim = queue.claim_next(connection, name, lease_seconds=60, **more)
        if claim:
            queue.release(connection, claim.case_id, name, token=claim.token)
    return claim and claim.case_id


def test_what_somebody_is_at_is_left_and_named(database, held, change):
    with database.transaction() as connection:
        queue.claim(connection, held[0], "ada", lease_seconds=60)
        queue.claim(connection, held[1], "lea", lease_seconds=60)
    say(database, held[2], "bob", undo_seconds=60)
    say(database, held[3], "bob", opinions=2)
    left = {0: "it is with ada", 2: "bob has just answered it"}
    spoken = {3: "bob has answered it; withdraw it on its own page"}
    assert change(range(5), CaseChange(values={"priority": 3})) == ([1, 3, 4], [], left)
    assert change(range(5), WITHDRAW) == ([1, 4], [], left | spoken)
    assert change([4], CaseChange(values={"priority": 4})) == ([], [], {4: "it has ended: it is withdrawn"})


def test_what_is_on_its_way_to_a_person_is_left_and_what_has_lapsed_is_not(database, held, change):
    with database.transaction() as connection:
        ahead = claim_ahead(connection, "ada", lease_seconds=60)
        queue.claim(connection, held[1], "bob", lease_seconds=-1)
    assert ahead.case_id == held[0]
    assert change([0, 1], WITHDRAW) == ([1], [], {0: "it comes next for ada"})


def test_the_same_twice_changes_nothing_twice(database, held, change):
    for told in (CaseChange(values={"priority": 3, "due_at": LATER, "assigned_to": "bob"}), WITHDRAW):
        assert change([0, 1, 0], told) == ([0, 1], [], {})
        assert change([1, 0], told) == ([], [1, 0], {})
    with database.transaction() as connection:
        events = cases.events_of(connection, held[0])
    assert [(one.actor, one.from_status, one.to_status) for one in events] == [
        (None, None, Status.WAITING),
        ("lea", Status.WAITING, Status.WAITING),
        ("lea", Status.WAITING, Status.WITHDRAWN),
    ]
    told = {"priority": 3, "due_at": LATER.isoformat(), "assigned_to": "bob"}
    assert events[1].detail == {"why": "a reason", "set": told}
    assert events[2].detail == {"why": "a reason"}


def test_nothing_is_changed_beyond_what_somebody_reviews(held, change):
    scope = ReviewerScope(models=("toy",))
    assert change([4, 5], WITHDRAW, scope=scope) == ([4], [], {5: "there is no such case among those that you review"})


def test_a_new_due_time_can_pass_again(database, held, change):
    with database.transaction() as connection:
        connection.execute("update review_items set due_at = %s where id = %s", (START, held[0]))
        settling.pass_due(connection, "escalate")
    assert change([0], CaseChange(values={"due_at": LATER, "priority": 2})) == ([0], [], {})
    with database.transaction() as connection:
        found = cases.case(connection, held[0])
    assert (found.overdue_at, found.due_at, found.priority) == (None, LATER, 2)


def test_what_is_kept_for_somebody_comes_to_them_first_and_to_nobody_else(database, held, change):
    change([3], keep_for("bob"))
    assert take(database, "ada") == held[0]
    assert take(database, "bob") == held[3]
    change([0, 1, 2, 4, 5], keep_for("bob"))
    assert take(database, "ada") is None
    with database.transaction() as connection:
        assert claim_ahead(connection, "ada", lease_seconds=60) is None
        assert cases.kept_for(connection, "bob") == 6
        assert cases.kept_for(connection, "bob", ReviewerScope(models=("other",))) == 1
        with pytest.raises(NotYours, match="kept for bob"):
            queue.claim(connection, held[0], "ada", lease_seconds=60)
    change([0], CaseChange(values={"assigned_to": None}))
    assert take(database, "ada") == held[0]


def test_once_the_due_time_is_over_it_is_everybodys(database, held, change):
    change(range(6), keep_for("bob"))
    with database.transaction() as connection:
        connection.execute("update review_items set due_at = clock_timestamp() where id = %s", (held[2],))
    assert take(database, "ada") == held[2]
    with database.transaction() as connection:
        assert queue.claim(connection, held[2], "ada", lease_seconds=60)


def test_who_holds_a_case_keeps_it_when_it_is_kept_for_somebody_else(database, held, change):
    with database.transaction() as connection:
        queue.claim(connection, held[0], "lea", lease_seconds=60)
    assert change([0], keep_for("bob")) == ([0], [], {})
    with database.transaction() as connection:
        again = queue.claim(connection, held[0], "lea", lease_seconds=60)
        queue.release(connection, held[0], "lea", token=again.token)
        with pytest.raises(NotYours):
            queue.claim(connection, held[0], "lea", lease_seconds=60)


def test_cases_are_not_kept_for_whoever_cannot_answer_them(database, held, change):
    say(database, held[0], "bob", opinions=2)
    with database.transaction() as connection:
        claim = queue.claim(connection, held[1], "ada", lease_seconds=60)
        verdict = ReviewVerdict(reason="blurred", saw_prediction=True)
        queue.answer(connection, held[1], "ada", token=claim.token, verdict=verdict, undo_seconds=0)
        settling.settle(connection, Settlement(), held[1])
    assert change([0, 1, 2, 5], keep_for("bob", models=("toy",), adjudicates=False)) == (
        [2],
        [],
        {
            0: "bob has answered it before",
            1: "people disagree about it, and bob is not among those who decide",
            5: "bob does not review such cases",
        },
    )
    assert change([1], keep_for("eve")) == ([1], [], {})
    assert take(database, "eve") == held[1]
    with database.transaction() as connection:
        for name, found in (("eve", [held[1]]), ("lea", [])):
            assert [
                case.id for case in disputes.to_decide(connection, name, scope=EVERYTHING, unclear=True, limit=9)
            ] == found


def test_what_is_kept_for_somebody_who_has_spoken_or_skipped_waits_for_others(database, held, change):
    change([0, 1], keep_for("bob"))
    say(database, held[0], "bob", opinions=2)
    with database.transaction() as connection:
        claim = queue.claim_next(connection, "bob", lease_seconds=60)
        assert claim.case_id == held[1]
        skips.skip(connection, held[1], "bob", token=claim.token, reason=None)
        assert [cases.case(connection, one).assigned_to for one in held[:2]] == [None, None]
    assert take(database, "ada") == held[0]
    assert change([0, 1], keep_for("bob")) == ([], [], {0: "bob has answered it before", 1: "bob has skipped it"})


def test_a_dispute_is_kept_for_nobody(database, held, change):
    with database.transaction() as connection:
        claim = queue.claim(connection, held[0], "lea", lease_seconds=60)
    change([0], keep_for("bob"))
    with database.transaction() as connection:
        verdict = ReviewVerdict(reason="blurred", saw_prediction=True)
        queue.answer(connection, held[0], "lea", token=claim.token, verdict=verdict, undo_seconds=0)
        settling.settle(connection, Settlement(), held[0])
        assert cases.case(connection, held[0]).assigned_to is None


def test_cases_that_fit_are_counted_and_listed_within_a_bound(database, held):
    wanted = CaseSearch(which=cases.Filter(model="toy"))
    with database.transaction() as connection:
        assert search.count(connection, wanted, "ada", at_most=9) == 5
        assert search.count(connection, wanted, "ada", at_most=2) == 2
        assert search.ids(connection, wanted, "ada", limit=2) == held[:2]
        assert search.ids(connection, wanted, "ada", scope=ReviewerScope(models=("other",)), limit=2) == []


def test_who_has_answered_is_known(database, held):
    with database.transaction() as connection:
        assert reviewers_so_far(connection) == []
        for name, one in zip(("bob", "ada", "bob"), held, strict=False):
            resolve(connection, one, name, "7")
        assert reviewers_so_far(connection) == ["ada", "bob"]
