"""What several opinions come to, what is looked at again, and what happens at the due time."""

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from demur.review import cases, queue, settling
from demur.review.item import Kind, ReviewerScope, ReviewVerdict, Status
from demur.review.queue import ClaimLost, NotYours
from demur.review.settling import ESCALATED, DisagreementRule, Settlement
from demur.traffic import log
from demur.traffic.draw import Draws, limit
from tests.conftest import entry, new_case

PLAIN = Settlement()


def put(database, n=1, **changes):
    """So many cases in the queue; return their ids."""
    entries = [entry(group=changes.get("group")) for _ in range(n)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(e, **changes) for e in entries])
    return [e.record.id for e in entries]


def say(database, case_id, name, label, *, rules=PLAIN):
    """A person claims and answers; None: they cannot tell. Return the case as it is then."""
    verdict = ReviewVerdict(label=label, reason=None if label else "blurred", saw_prediction=False)
    with database.transaction() as connection:
        claim = queue.claim(connection, case_id, name, lease_seconds=60)
        queue.answer(connection, case_id, name, token=claim.token, verdict=verdict, undo_seconds=0)
        settling.settle(connection, rules, case_id)
        return cases.case(connection, case_id)


def told(database, case_id):
    with database.transaction() as connection:
        return [(outcome.label, outcome.author) for outcome in log.outcomes_of(connection, case_id)]


@pytest.mark.parametrize(
    ("said", "unanimous", "status", "label", "resolution"),
    [
        ("7", False, "resolved", "7", "agreed"),
        ("77", False, "resolved", "7", "agreed"),
        ("71", False, "adjudication", None, None),  # one half is no majority
        ("771", False, "resolved", "7", "majority"),
        ("771", True, "adjudication", None, None),
        ("777", True, "resolved", "7", "agreed"),
        ("713", False, "adjudication", None, None),
        ("?", False, "adjudication", None, None),
        ("77?", False, "adjudication", None, None),  # two labels where three are wanted
    ],
)
def test_what_opinions_come_to(database, said, unanimous, status, label, resolution):
    (case_id,) = put(database, opinions_wanted=len(said))
    rules = Settlement(unanimous=unanimous)
    for at, one in enumerate(said):
        case = say(database, case_id, f"person {at}", None if one == "?" else one, rules=rules)
        assert case.status == (status if at == len(said) - 1 else "waiting")
    assert (case.label, case.resolution) == (label, resolution)
    assert told(database, case_id) == ([(label, f"person {len(said) - 1}")] if label else [])


def test_lists_of_labels_agree_in_any_order(database):
    (case_id,) = put(database, opinions_wanted=2)
    say(database, case_id, "ada", ["a", "b"])
    assert say(database, case_id, "bob", ["b", "a"]).resolution == "agreed"


def test_nobody_speaks_twice_about_one_case(database):
    (case_id,) = put(database, opinions_wanted=2)
    say(database, case_id, "ada", "7")
    with database.transaction() as connection:
        assert queue.claim_next(connection, "ada", lease_seconds=60) is None
        with pytest.raises(NotYours, match="answered this case before"):
            queue.claim(connection, case_id, "ada", lease_seconds=60)
    assert say(database, case_id, "bob", "1").status == "adjudication"
    with database.transaction() as connection:
        for name in ("ada", "bob"):
            assert queue.claim_next(connection, name, lease_seconds=60) is None
        with pytest.raises(NotYours, match="not among those who decide"):
            queue.claim(connection, case_id, "cleo", lease_seconds=60, scope=ReviewerScope(adjudicates=False))
        assert queue.claim_next(connection, "cleo", lease_seconds=60, scope=ReviewerScope(adjudicates=False)) is None


@pytest.mark.parametrize(("label", "resolution"), [("1", "adjudicated"), ("9", "adjudicated"), (None, "undecided")])
def test_whoever_decides_has_the_last_word(database, label, resolution):
    (case_id,) = put(database, opinions_wanted=2)
    say(database, case_id, "ada", "7")
    say(database, case_id, "bob", "1")
    (later,) = put(database, priority=9)
    with database.transaction() as connection:
        claim = queue.claim_next(connection, "cleo", lease_seconds=0)
        assert (claim.case_id, claim.adjudicating) == (case_id, True)  # before all others
        queue.lapse(connection)
        assert cases.case(connection, case_id).status is Status.ADJUDICATION  # where it came from
        claim = queue.claim(connection, case_id, "dora", lease_seconds=60)
        queue.release(connection, case_id, "dora", token=claim.token)
        assert cases.case(connection, case_id).status is Status.ADJUDICATION
    done = say(database, case_id, "cleo", label)
    assert (done.status, done.label, done.resolution) == ("resolved", label, resolution)
    assert told(database, case_id) == ([(label, "cleo")] if label else [])
    assert later != case_id


def test_groups_about_which_people_disagree_get_another_opinion(database):
    rules = Settlement(prone=DisagreementRule(disagreement_above=0.25, at_least=4, among=4))
    names = (f"person {i}" for i in count())

    def pair(group, second):
        (case_id,) = put(database, opinions_wanted=2, group=group)
        say(database, case_id, next(names), "7")
        if say(database, case_id, next(names), second).status == "adjudication":
            say(database, case_id, next(names), "7")

    def single(group):
        (case_id,) = put(database, group=group)
        return say(database, case_id, next(names), "7", rules=rules).status

    for second in "771":
        pair("east", second)
    assert single("east") == "resolved"  # three are too few to know
    pair("east", "1")
    assert single("east") == "waiting"  # two of four
    assert single("west") == "resolved"
    for _ in range(3):
        pair("east", "7")
    assert single("east") == "resolved"  # one of the latest four


def test_a_share_of_what_was_resolved_is_looked_at_again_by_another(database):
    draws = Draws("a key", "re-review")
    rules = Settlement(re_review=0.5, draws=draws)
    ids = put(database, 20, blind=False)
    for case_id in ids:
        say(database, case_id, "ada", "7", rules=rules)
    with database.transaction() as connection:
        again = [case for case in cases.listed(connection, cases.Filter(), limit=50) if case.kind is Kind.RE_REVIEW]
        assert queue.claim_next(connection, "ada", lease_seconds=60) is None  # not by who answered first
    assert {case.record_id for case in again} == {one for one in ids if draws.of(str(one)) < limit(0.5)}
    assert all(case.blind and case.id != case.record_id for case in again)
    assert {case.id.version for case in again} == {one.version for one in ids}  # ids look alike
    assert 3 < len(again) < 17
    same, other, unclear = again[:3]
    assert say(database, same.id, "bob", "7", rules=rules).resolution == "agreed"
    assert told(database, same.record_id) == [("7", "ada")]  # nothing new is said
    assert say(database, other.id, "bob", "1", rules=rules).status == "adjudication"
    with pytest.raises(NotYours):
        say(database, other.id, "ada", "7", rules=rules)
    assert say(database, other.id, "cleo", "1", rules=rules).resolution == "adjudicated"
    assert told(database, other.record_id) == [("7", "ada"), ("1", "cleo")]
    assert say(database, unclear.id, "bob", None, rules=rules).status == "adjudication"
    with database.transaction() as connection:
        kinds = connection.execute("select kind, count(*) from review_items group by 1 order by 1").fetchall()
    assert kinds == [("held", 20), ("re_review", len(again))]  # none is drawn from what was looked at again


def test_who_took_an_answer_back_gets_no_second_look_at_it(database):
    """Once they had answered they saw what the model said, and a second look is blind."""
    rules = Settlement(re_review=1.0, draws=Draws("a key", "re-review"))
    (case_id,) = put(database)
    verdict = ReviewVerdict(label="1", saw_prediction=False)
    with database.transaction() as connection:
        claim = queue.claim(connection, case_id, "bob", lease_seconds=60)
        queue.answer(connection, case_id, "bob", token=claim.token, verdict=verdict, undo_seconds=60)
        claim = queue.undo(connection, case_id, "bob", token=claim.token, lease_seconds=60)
        queue.release(connection, case_id, "bob", token=claim.token)
        assert queue.claim(connection, case_id, "bob", lease_seconds=0)  # the case itself still is for them
    say(database, case_id, "ada", "7", rules=rules)
    with database.transaction() as connection:
        (again,) = cases.listed(connection, cases.Filter(statuses=(Status.WAITING,)), limit=9)
        assert queue.claim_next(connection, "bob", lease_seconds=60) is None
        with pytest.raises(NotYours):
            queue.claim(connection, again.id, "bob", lease_seconds=60)
        assert queue.claim_next(connection, "cleo", lease_seconds=60).case_id == again.id


def test_a_second_look_is_as_urgent_as_what_it_looks_at(database):
    """Where all cases have a priority, a due time or two opinions, one without them would stand out."""
    rules = Settlement(re_review=1.0, draws=Draws("a key", "re-review"))
    urgent = {"priority": 3, "due_at": datetime.now(UTC) + timedelta(hours=2), "opinions_wanted": 2}
    (first,) = put(database, **urgent)
    say(database, first, "ada", "7", rules=rules)
    say(database, first, "bob", "7", rules=rules)
    with database.transaction() as connection:
        (again,) = cases.listed(connection, cases.Filter(statuses=(Status.WAITING,)), limit=9)
        first = cases.case(connection, first)
    assert (again.priority, again.opinions_wanted) == (3, 2)
    assert again.due_at - again.created_at == pytest.approx(first.due_at - first.created_at, abs=timedelta(seconds=1))
    assert say(database, again.id, "cleo", "7", rules=rules).resolution == "agreed"  # all the same one is enough


def test_nothing_is_looked_at_again_once_its_input_is_gone(database):
    rules = Settlement(re_review=1.0, draws=Draws("a key", "re-review"))
    (case_id,) = put(database)
    with database.transaction() as connection:
        connection.execute("delete from payloads")
    say(database, case_id, "ada", "7", rules=rules)
    with database.transaction() as connection:
        assert queue.claim_next(connection, "bob", lease_seconds=60) is None


@pytest.mark.parametrize(
    ("at_due", "statuses", "priority"),
    [
        ("escalate", ["waiting", "claimed", "waiting"], ESCALATED),
        ("notify", ["waiting", "claimed", "waiting"], 0),
        ("unanswered", ["expired", "claimed", "waiting"], 0),
    ],
)
def test_what_happens_at_the_due_time(database, at_due, statuses, priority):
    now = datetime.now(UTC)
    free, taken, early = (put(database, due_at=now + timedelta(seconds=seconds))[0] for seconds in (-1, -1, 3600))
    with database.transaction() as connection:
        claim = queue.claim(connection, taken, "ada", lease_seconds=60)
        for _ in range(2):
            settling.sweep(connection, Settlement(at_due=at_due))
        found = [cases.case(connection, case_id) for case_id in (free, taken, early)]
        assert [case.status for case in found] == statuses
        assert found[0].priority == priority
        assert found[0].overdue_at is not None
        assert found[2].overdue_at is None
        assert cases.backlog(connection).overdue == (1 if at_due == "unanswered" else 2)
        verdict = ReviewVerdict(label="7", saw_prediction=False)
        queue.answer(connection, taken, "ada", token=claim.token, verdict=verdict, undo_seconds=0)  # still counts
        settling.sweep(connection, Settlement(at_due=at_due))
        assert cases.case(connection, taken).status is Status.RESOLVED
        if at_due == "unanswered":
            with pytest.raises(ClaimLost, match="has ended: it is expired"):
                queue.claim(connection, free, "ada", lease_seconds=60)
    assert told(database, free) == []


def test_held_cases_whose_outcome_was_told_leave_the_queue(database):
    """Unless somebody is at them; drawn cases stay, and what people said of a case makes nothing known."""
    held, unknown, taken, answered = put(database, 4)
    (drawn,) = put(database, kind=Kind.SPOT_CHECK)
    with database.transaction() as connection:
        for case_id in (held, taken, drawn):
            log.add_outcome(connection, case_id, label="7", source="laboratory", author=None)
        log.add_outcome(connection, unknown, label="7", source="review", author="ada")
        claim = queue.claim(connection, taken, "ada", lease_seconds=60)
        other = queue.claim(connection, answered, "ada", lease_seconds=60)
        verdict = ReviewVerdict(label="1", saw_prediction=False)
        queue.answer(connection, answered, "ada", token=other.token, verdict=verdict, undo_seconds=60)
        log.add_outcome(connection, answered, label="7", source="laboratory", author=None)
        assert settling.withdraw_known(connection) == 1
        found = {one: cases.case(connection, one).status for one in (held, unknown, taken, answered, drawn)}
        assert list(found.values()) == ["withdrawn", "waiting", "claimed", "answered", "waiting"]
        assert cases.events_of(connection, held)[-1].detail == {"why": "its outcome was told"}
        queue.release(connection, taken, "ada", token=claim.token)
        assert settling.withdraw_known(connection) == 1


@pytest.mark.parametrize("oddness", ["update review_opinions set label = '{}'", "delete from review_opinions"])
def test_a_case_that_cannot_be_settled_keeps_no_other_waiting(database, caplog, oddness):
    odd, fine = put(database, 2)
    with database.transaction() as connection:
        for case_id in (odd, fine):
            claim = queue.claim(connection, case_id, "ada", lease_seconds=60)
            verdict = ReviewVerdict(label="7", saw_prediction=False)
            queue.answer(connection, case_id, "ada", token=claim.token, verdict=verdict, undo_seconds=0)
        connection.execute(f"{oddness} where case_id = %s", (odd,))
        assert settling.settle(connection, PLAIN) == 1
        assert [cases.case(connection, one).status for one in (odd, fine)] == ["answered", "resolved"]
    assert f"case {odd} cannot be settled" in caplog.text


def test_two_sweeps_at_once_settle_each_answer_once(database):
    ids = put(database, 30)
    with database.transaction() as connection:
        for case_id in ids:
            claim = queue.claim(connection, case_id, "ada", lease_seconds=60)
            verdict = ReviewVerdict(label="7", saw_prediction=False)
            queue.answer(connection, case_id, "ada", token=claim.token, verdict=verdict, undo_seconds=0)
    with database.transaction() as one, database.transaction() as other:
        moved = [settling.settle(connection, PLAIN) for connection in (one, other)]
    assert moved == [30, 0]
    assert all(told(database, case_id) == [("7", "ada")] for case_id in ids)


def test_what_people_are_busy_with_keeps_nothing_that_is_due_waiting(database, monkeypatch):
    monkeypatch.setattr(settling, "AT_ONCE", 2)
    *taken, free = put(database, 3, due_at=datetime.now(UTC) - timedelta(seconds=1))
    with database.transaction() as connection:
        for case_id in taken:
            queue.claim(connection, case_id, "ada", lease_seconds=60)
        settling.pass_due(connection, "unanswered")
        assert cases.case(connection, free).status is Status.EXPIRED
