"""Changing an answer that counts: when it can be, what stays on record, and what counts in the end."""

import pytest

from demur.review import access, cases, outbox, queue, reopening, settling
from demur.review.item import EVERYTHING, Kind, ReviewerScope, ReviewVerdict, Status
from demur.review.outbox import Subscription
from demur.review.queue import ClaimLost, NotYours
from demur.review.settling import Settlement
from demur.traffic import log
from demur.traffic.draw import Draws
from tests.conftest import entry, new_case


def run(database, call, *args, **rest):
    with database.transaction() as connection:
        return call(connection, *args, **rest)


@pytest.fixture
def put(database):
    def put(**changes):
        made = entry(input="a text")
        run(database, log.append, [made])
        run(database, queue.enqueue, [new_case(made, **changes)])
        return made.record.id

    return put


@pytest.fixture
def say(database):
    def say(case_id, name, label, *, undo=0.0, reason=None, rules=Settlement()):  # noqa: B008 - it is frozen
        claim = run(database, queue.claim, case_id, name, lease_seconds=60)
        verdict = ReviewVerdict(label=label, reason=reason, saw_prediction=True)
        run(database, queue.answer, case_id, name, token=claim.token, verdict=verdict, undo_seconds=undo)
        run(database, settling.settle, rules, case_id)

    return say


def reopen(database, case_id, name="ada", *, why=None, scope=EVERYTHING):
    return run(database, reopening.reopen, case_id, name, why=why, scope=scope, lease_seconds=60)


def outcomes(database, case_id):
    return [one.label for one in run(database, log.outcomes_of, case_id)]


def why_not(database, case_id, name="ada"):
    return next(
        one.why_not for one in run(database, reopening.last_answers, name, EVERYTHING) if one.case.id == case_id
    )


def test_both_answers_stay_on_record_with_who_when_and_why(database, put, say):
    case_id = put()
    say(case_id, "ada", "7")
    assert run(database, cases.case, case_id).status is Status.RESOLVED
    claim = reopen(database, case_id, why="I had the page upside down")
    now = run(database, cases.case, case_id)
    assert (now.status, now.claimed_by, now.label, now.ended_at) == (Status.CLAIMED, "ada", None, None)
    assert outcomes(database, case_id) == ["7"]  # until there is another
    verdict = ReviewVerdict(label="1", saw_prediction=True)
    run(database, queue.answer, case_id, "ada", token=claim.token, verdict=verdict, undo_seconds=0)
    run(database, settling.settle, Settlement(), case_id)
    assert outcomes(database, case_id) == ["7", "1"]
    first, second = run(database, cases.opinions_of, [case_id])[case_id]
    assert (first.label, first.undone_at is None, second.label, second.undone_at) == ("7", False, "1", None)
    (event,) = [one for one in run(database, cases.events_of, case_id) if one.from_status is Status.RESOLVED]
    assert (event.actor, event.to_status) == ("ada", Status.CLAIMED)
    assert event.detail == {"why": "they change their answer: I had the page upside down"}


def test_opening_it_twice_is_once(database, put, say):
    case_id = put()
    say(case_id, "ada", "7")
    assert reopen(database, case_id).token == reopen(database, case_id).token
    assert len(run(database, cases.opinions_of, [case_id])[case_id]) == 1


def test_an_answer_that_waits_for_others_can_be_changed(database, put, say):
    case_id = put(opinions_wanted=2)
    say(case_id, "ada", "7")
    assert run(database, cases.case, case_id).status is Status.WAITING
    reopen(database, case_id)
    assert run(database, cases.case, case_id).claimed_by == "ada"


def test_whoever_could_not_tell_can_after_all(database, put, say):
    case_id = put()
    say(case_id, "ada", None, reason="too dark")
    assert run(database, cases.case, case_id).status is Status.ADJUDICATION
    claim = reopen(database, case_id)
    assert not claim.adjudicating


def test_an_answer_that_does_not_count_yet_is_taken_back_late(database, put, say):
    case_id = put()
    say(case_id, "ada", "7", undo=600)
    reopen(database, case_id)
    assert outcomes(database, case_id) == []


def test_if_nobody_can_tell_in_the_end_the_first_answer_counts_no_longer(database, put, say):
    case_id = put()
    say(case_id, "ada", "7")
    claim = reopen(database, case_id)
    verdict = ReviewVerdict(label=None, reason="too dark", saw_prediction=True)
    run(database, queue.answer, case_id, "ada", token=claim.token, verdict=verdict, undo_seconds=0)
    run(database, settling.settle, Settlement(), case_id)
    assert outcomes(database, case_id) == ["7"]
    say(case_id, "lea", None, reason="so it is")
    assert run(database, cases.case, case_id).resolution == "undecided"
    assert outcomes(database, case_id) == []


def test_a_second_look_that_nobody_can_tell_leaves_the_outcome(database, put, say):
    case_id = put()
    rules = Settlement(re_review=1.0, draws=Draws("a key", "re-review"))
    say(case_id, "ada", "7", rules=rules)
    (again,) = [
        one.id for one in run(database, cases.cases_where, "where kind = 're_review'", {}) if one.kind is Kind.RE_REVIEW
    ]
    say(again, "bob", None, reason="no")
    say(again, "lea", None, reason="no")
    assert outcomes(database, case_id) == ["7"]
    assert why_not(database, case_id) == "it was compared with what others say"


def told(database, case_id):
    run(database, outbox.subscribe, [Subscription(webhook="https://a.example/x", events=("resolved",))])


def test_a_webhook_that_was_not_tried_is_not_sent(database, put, say):
    case_id = put()
    told(database, case_id)
    say(case_id, "ada", "7")
    reopen(database, case_id)
    with database.transaction() as connection:
        assert connection.execute("select count(*) from webhook_deliveries").fetchone() == (0,)
    say_again = run(database, cases.case, case_id)
    verdict = ReviewVerdict(label="1", saw_prediction=True)
    run(database, queue.answer, case_id, "ada", token=say_again.token, verdict=verdict, undo_seconds=0)
    run(database, settling.settle, Settlement(), case_id)
    with database.transaction() as connection:
        assert connection.execute("select count(*) from webhook_deliveries").fetchone() == (1,)


def test_no_sender_takes_what_is_about_to_be_untold(database, put, say, monkeypatch):
    case_id = put()
    told(database, case_id)
    say(case_id, "ada", "7")
    judge, taken = reopening.last_answers, []

    def and_meanwhile(connection, *args):
        found = judge(connection, *args)
        most = {"lease_seconds": 60, "most_attempts": 3, "limit": 9}
        taken.extend(run(database, outbox.take, "https://a.example/x", **most))
        return found

    monkeypatch.setattr(reopening, "last_answers", and_meanwhile)
    reopen(database, case_id)
    assert taken == []


def webhook_was_tried(database, case_id):
    with database.transaction() as connection:
        connection.execute(
            "insert into webhook_deliveries (webhook, event, case_id, attempts) values ('x', 'resolved', %s, 1)",
            (case_id,),
        )


def webhook_was_tried_and_is_sent_again(database, case_id):
    with database.transaction() as connection:
        connection.execute(
            "insert into webhook_deliveries (webhook, event, case_id, attempts, body, dead_at)"
            " values ('x', 'resolved', %s, 12, '{}', now())",
            (case_id,),
        )
        outbox.send_again(connection, outbox.dead_letters(connection, limit=1)[0].id)


def was_exported(database, case_id):
    run(database, access.note, [case_id], "lea", through="export", shown=["everything"])


def caller_knows(database, case_id):
    run(database, log.add_outcome, case_id, label="3", source="shop", author=None)


def input_is_gone(database, case_id):
    with database.transaction() as connection:
        connection.execute("delete from payloads where record_id = %s", (case_id,))


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (webhook_was_tried, "another system was told of it"),
        (webhook_was_tried_and_is_sent_again, "another system was told of it"),
        (was_exported, "it was exported"),
        (caller_knows, "somebody has told an outcome of their own"),
        (input_is_gone, "the input is no longer kept"),
    ],
)
def test_what_somebody_has_built_on_stays(database, put, say, happens, words):
    case_id = put()
    say(case_id, "ada", "7")
    assert why_not(database, case_id) is None
    happens(database, case_id)
    before = run(database, cases.case, case_id)
    with pytest.raises(ClaimLost, match=words):
        reopen(database, case_id)
    assert run(database, cases.case, case_id) == before
    assert words in why_not(database, case_id)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([("ada", "7"), ("bob", "7")], "compared"),
        ([("ada", "7"), ("bob", "1")], "compared"),
        ([("ada", "7"), ("bob", "1"), ("lea", "1")], "decided between"),
    ],
)
def test_what_was_compared_or_decided_stays(database, put, say, said, words):
    case_id = put(opinions_wanted=2)
    for name, label in said:
        say(case_id, name, label)
    for name, _ in said:
        with pytest.raises(ClaimLost, match=words if name == "ada" else "compared|decided"):
            reopen(database, case_id, name)


def test_a_case_that_somebody_is_at_stays(database, put, say):
    case_id = put(opinions_wanted=2)
    say(case_id, "ada", "7")
    run(database, queue.claim, case_id, "bob", lease_seconds=60)
    with pytest.raises(ClaimLost, match="somebody else is at this case"):
        reopen(database, case_id)


def test_whoever_has_begun_to_decide_has_seen_it(database, put, say):
    case_id = put()
    say(case_id, "ada", None, reason="too dark")
    claim = run(database, queue.claim, case_id, "lea", lease_seconds=60)
    run(database, queue.release, case_id, "lea", token=claim.token)
    with pytest.raises(ClaimLost, match="begun to decide"):
        reopen(database, case_id)


def test_answers_of_others_and_older_ones_are_not_changed(database, put, say):
    first = put()
    say(first, "ada", "7")
    with pytest.raises(NotYours):
        reopen(database, first, "bob")
    for _ in range(reopening.LAST):
        say(put(), "ada", "7")
    assert first not in [one.case.id for one in run(database, reopening.last_answers, "ada", EVERYTHING)]
    with pytest.raises(NotYours, match="last 20"):
        reopen(database, first)


def test_outside_of_ones_scope_nothing_is_seen_nor_changed(database, put, say):
    case_id = put()
    say(case_id, "ada", "7")
    scope = ReviewerScope(models=("other",))
    assert run(database, reopening.last_answers, "ada", scope) == []
    with pytest.raises(NotYours):
        reopen(database, case_id, scope=scope)


def test_a_withdrawn_case_stays(database, put, say):
    case_id = put(opinions_wanted=2)
    say(case_id, "ada", "7")
    run(database, queue.withdraw, case_id, "lea", why="spam")
    with pytest.raises(ClaimLost, match="nobody is asked"):
        reopen(database, case_id)
