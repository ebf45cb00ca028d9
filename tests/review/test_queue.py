import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from uuid import uuid4

import psycopg
import pytest

from demur.review import cases, given_back, queue, settling
from demur.review.cases import CaseNotFound, Filter
from demur.review.item import ENDED, TRANSITIONS, Kind, QueueOrder, ReviewerScope, ReviewVerdict, Status
from demur.review.queue import ClaimLost, NotYours
from demur.traffic import log
from tests.conftest import entry, new_case

FOREVER = 3600.0
SEVEN = ReviewVerdict(label="7", saw_prediction=True)


@pytest.fixture
def held(database):
    """Five held predictions, oldest first."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    entries = [entry(created_at=start + timedelta(minutes=i), confidence=0.9 - i / 10) for i in range(5)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(e) for e in entries])
    return [e.record.id for e in entries]


def run(database, function, *args, **kwargs):
    with database.transaction() as connection:
        return function(connection, *args, **kwargs)


def answer(database, case_id, name, verdict=SEVEN, undo=FOREVER):
    """Claim and answer; return the token."""
    claim = run(database, queue.claim, case_id, name, lease_seconds=FOREVER)
    run(database, queue.answer, case_id, name, token=claim.token, verdict=verdict, undo_seconds=undo)
    return claim.token


def moves(database, case_id):
    return [(e.actor, e.from_status, e.to_status, e.token) for e in run(database, cases.events_of, case_id)]


def test_every_step_to_an_outcome_is_noted(database, held):
    answer(database, held[0], "ada", undo=0)
    assert run(database, cases.case, held[0]).status is Status.ANSWERED
    assert run(database, log.outcomes_of, held[0]) == []  # it can still be taken back
    assert run(database, settling.sweep, settling.Settlement()) == 1
    assert [(o.label, o.source, o.author) for o in run(database, log.outcomes_of, held[0])] == [("7", "review", "ada")]
    done = run(database, cases.case, held[0])
    assert (done.status, done.label, done.resolution) == (Status.RESOLVED, "7", "agreed")
    assert moves(database, held[0]) == [
        (None, None, "waiting", 0),
        ("ada", "waiting", "claimed", 1),
        ("ada", "claimed", "answered", 1),
        (None, "answered", "resolved", 1),
    ]
    assert run(database, cases.events_of, held[0])[2].detail == {"saw_prediction": True}


def test_the_table_knows_the_moves_that_the_types_list(database):
    with database.transaction() as connection:
        listed = set(connection.execute("select from_status, to_status from review_transitions").fetchall())
    assert listed == {(before.value, after.value) for before, afters in TRANSITIONS.items() for after in afters}


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(Status, Status) if pair[0] is not pair[1]])
def test_the_table_refuses_every_other_move(database, held, before, after):
    """Each state is reached by moves that are allowed, and left for each other one."""
    filled = {
        Status.CLAIMED: "claimed_by = 'ada', lease_until = now() + interval '1 hour', settles_at = null",
        Status.ANSWERED: "claimed_by = 'ada', lease_until = null, settles_at = now()",
        Status.RESOLVED: "lease_until = null, settles_at = null, resolution = 'agreed', label = '\"7\"'",
    }
    plain = "lease_until = null, settles_at = null"
    road = {
        Status.WAITING: [],
        Status.CLAIMED: [Status.CLAIMED],
        Status.ANSWERED: [Status.CLAIMED, Status.ANSWERED],
        Status.ADJUDICATION: [Status.CLAIMED, Status.ADJUDICATION],
        Status.RESOLVED: [Status.CLAIMED, Status.ANSWERED, Status.RESOLVED],
        Status.EXPIRED: [Status.EXPIRED],
        Status.WITHDRAWN: [Status.WITHDRAWN],
    }

    def move(connection, to):
        columns = filled.get(to, plain)
        if before is Status.RESOLVED and to is not Status.RESOLVED:
            columns += ", resolution = null, label = null"
        connection.execute(f"update review_items set status = '{to.value}', {columns} where id = %s", (held[0],))

    with database.transaction() as connection:
        for step in road[before]:
            move(connection, step)
        n = len(cases.events_of(connection, held[0]))
        if after in TRANSITIONS.get(before, set()):
            move(connection, after)
            assert len(cases.events_of(connection, held[0])) == n + 1
        else:
            with pytest.raises(psycopg.errors.CheckViolation, match="cannot go from"), connection.transaction():
                move(connection, after)


@pytest.mark.parametrize("change", ["update review_events set actor = 'eve'", "delete from review_events"])
def test_history_is_only_added_to(database, held, change):
    with pytest.raises(psycopg.errors.CheckViolation, match="only ever added to"), database.transaction() as connection:
        connection.execute(change)


def test_the_oldest_case_comes_first_and_a_released_one_comes_back(database, held):
    first = run(database, queue.claim_next, "ada", lease_seconds=FOREVER)
    second = run(database, queue.claim_next, "bob", lease_seconds=FOREVER)
    assert [first.case_id, second.case_id] == held[:2]
    run(database, queue.release, held[0], "ada", token=first.token)
    assert run(database, queue.claim_next, "bob", lease_seconds=FOREVER).case_id == held[0]


def test_priority_comes_before_the_due_time_and_that_before_age_or_doubt(database):
    start = datetime.now(UTC)
    due = start + timedelta(hours=1)
    wanted = [
        {"priority": 5, "confidence": 0.9},
        {"due_at": due, "confidence": 0.9},
        {"due_at": due + timedelta(hours=1), "confidence": 0.9},
        {"confidence": 0.8},
        {"confidence": 0.2},
        {"confidence": None},
    ]
    entries = [entry(created_at=start - timedelta(minutes=i)) for i in range(len(wanted))]  # the first is the youngest
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(e, **w) for e, w in zip(entries, wanted, strict=True)])
    ids = [e.record.id for e in entries]
    by_age, by_doubt = (
        [case.id for case in run(database, cases.listed, Filter(statuses=(Status.WAITING,)), order=order, limit=10)]
        for order in QueueOrder
    )
    assert by_age == [ids[0], ids[1], ids[2], ids[5], ids[4], ids[3]]
    assert by_doubt == [ids[0], ids[1], ids[2], ids[5], ids[4], ids[3]]  # unknown is most doubtful
    with database.transaction() as connection:
        connection.execute("update review_items set created_at = now() where id = %s", (ids[5],))
    first_four = {}
    for order in QueueOrder:
        claims = [run(database, queue.claim_next, "ada", lease_seconds=FOREVER, order=order) for _ in range(4)]
        first_four[order] = [claim.case_id for claim in claims]
        for claim in claims:
            run(database, queue.release, claim.case_id, "ada", token=claim.token)
    assert first_four[QueueOrder.AGE] == [*ids[:3], ids[4]]
    assert first_four[QueueOrder.UNCERTAINTY] == [*ids[:3], ids[5]]


def test_two_people_cannot_hold_the_same_case(database, held):
    run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    with pytest.raises(ClaimLost, match="is with ada"):
        run(database, queue.claim, held[0], "bob", lease_seconds=FOREVER)


def test_claiming_again_and_a_heartbeat_prolong_the_lease_under_the_same_token(database, held):
    first = run(database, queue.claim, held[0], "ada", lease_seconds=10)
    again = run(database, queue.claim, held[0], "ada", lease_seconds=100)
    beat = run(database, queue.heartbeat, held[0], "ada", token=first.token, lease_seconds=FOREVER)
    assert first.token == again.token == beat.token
    assert first.lease_until < again.lease_until < beat.lease_until
    assert len(moves(database, held[0])) == 2


def test_a_lease_that_ran_out_frees_the_case_and_its_token_is_worth_nothing(database, held):
    late = run(database, queue.claim, held[0], "ada", lease_seconds=0)
    assert run(database, cases.case, held[0]).status is Status.WAITING  # before anybody has swept
    for attempt, values in (
        (queue.answer, {"verdict": SEVEN, "undo_seconds": 0}),
        (queue.heartbeat, {"lease_seconds": FOREVER}),
    ):
        with pytest.raises(ClaimLost, match="ran out"):
            run(database, attempt, held[0], "ada", token=late.token, **values)
    assert run(database, queue.claim_next, "bob", lease_seconds=FOREVER).case_id == held[0]
    with pytest.raises(ClaimLost, match="is with bob"):
        run(database, queue.answer, held[0], "ada", token=late.token, verdict=SEVEN, undo_seconds=0)
    with pytest.raises(ClaimLost):
        run(database, queue.release, held[0], "ada", token=late.token)
    assert run(database, log.outcomes_of, held[0]) == []
    assert moves(database, held[0])[2:] == [(None, "claimed", "waiting", 1), ("bob", "waiting", "claimed", 2)]


def test_what_was_typed_is_kept_until_it_is_sent(database, held):
    claim = run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    for text in ("fir", "first"):
        draft = {"comment": text}
        run(database, queue.heartbeat, held[0], "ada", token=claim.token, lease_seconds=FOREVER, draft=draft)
    assert run(database, cases.draft_of, held[0], "ada") == {"comment": "first"}
    assert run(database, cases.draft_of, held[0], "bob") is None
    run(database, queue.answer, held[0], "ada", token=claim.token, verdict=SEVEN, undo_seconds=0)
    assert run(database, cases.draft_of, held[0], "ada") is None


def test_an_answer_sent_twice_counts_once_and_another_is_refused(database, held):
    token = answer(database, held[0], "ada")
    run(database, queue.answer, held[0], "ada", token=token, verdict=SEVEN, undo_seconds=0)
    other = ReviewVerdict(label="1", saw_prediction=True)
    with pytest.raises(ClaimLost, match="just answered by ada"):
        run(database, queue.answer, held[0], "ada", token=token, verdict=other, undo_seconds=0)
    assert len(run(database, cases.opinions_of, [held[0]])[held[0]]) == 1


def test_an_answer_can_be_taken_back_in_time(database, held):
    token = answer(database, held[0], "ada")
    with pytest.raises(ClaimLost):
        run(database, queue.undo, held[0], "bob", token=token, lease_seconds=FOREVER)
    claim = run(database, queue.undo, held[0], "ada", token=token, lease_seconds=FOREVER)
    assert claim.token == token + 1
    again = run(database, queue.undo, held[0], "ada", token=token, lease_seconds=FOREVER)  # its reply was lost
    assert again.token == claim.token
    with pytest.raises(ClaimLost):  # a retry of the answer that was taken back
        run(database, queue.answer, held[0], "ada", token=token, verdict=SEVEN, undo_seconds=0)
    one = ReviewVerdict(label="1", saw_prediction=True)
    run(database, queue.answer, held[0], "ada", token=claim.token, verdict=one, undo_seconds=0)
    run(database, settling.sweep, settling.Settlement())
    assert [o.label for o in run(database, log.outcomes_of, held[0])] == ["1"]
    assert [bool(o.undone_at) for o in run(database, cases.opinions_of, [held[0]])[held[0]]] == [True, False]


def test_it_can_be_too_late_to_take_an_answer_back(database, held):
    token = answer(database, held[0], "ada", undo=0)
    with pytest.raises(ClaimLost, match="too late"):
        run(database, queue.undo, held[0], "ada", token=token, lease_seconds=FOREVER)


def test_a_resolved_case_cannot_be_claimed_answered_or_withdrawn(database, held):
    token = answer(database, held[0], "ada", undo=0)
    run(database, settling.sweep, settling.Settlement())
    for attempt, values in (
        (queue.claim, {"lease_seconds": FOREVER}),
        (queue.answer, {"token": token, "verdict": ReviewVerdict(label="1", saw_prediction=True), "undo_seconds": 0}),
    ):
        with pytest.raises(ClaimLost, match="has ended"):
            run(database, attempt, held[0], "ada", **values)
    with pytest.raises(ClaimLost, match="has ended"):
        run(database, queue.withdraw, held[0], "lead", why="a double")
    assert len(run(database, log.outcomes_of, held[0])) == 1


def test_a_withdrawn_case_is_nobodys(database, held):
    claim = run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    for _ in range(2):
        assert run(database, queue.withdraw, held[0], "lead", why="a double").status is Status.WITHDRAWN
    with pytest.raises(ClaimLost, match="withdrawn"):
        run(database, queue.answer, held[0], "ada", token=claim.token, verdict=SEVEN, undo_seconds=0)
    assert moves(database, held[0])[-1] == ("lead", "claimed", "withdrawn", 1)


def test_a_prediction_that_nobody_was_asked_about_is_no_case(database):
    with pytest.raises(CaseNotFound, match="no case"):
        run(database, queue.claim, uuid4(), "ada", lease_seconds=FOREVER)
    assert run(database, cases.find, uuid4()) is None
    assert run(database, queue.claim_next, "ada", lease_seconds=FOREVER) is None


def test_enqueueing_again_changes_nothing(database, held):
    record = run(database, log.find_one, held[0])
    claim = run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    run(database, queue.enqueue, [new_case(record)])
    assert run(database, cases.case, held[0]).token == claim.token
    assert len(moves(database, held[0])) == 2


def test_a_case_to_be_checked_is_worked_like_any_other(database):
    first, second = entry(), entry(action="answer")
    with database.transaction() as connection:
        log.append(connection, [first, second])
        queue.enqueue(connection, [new_case(first), new_case(second, kind=Kind.SPOT_CHECK)])
    run(database, queue.claim_next, "ada", lease_seconds=FOREVER)
    claim = run(database, queue.claim_next, "ada", lease_seconds=FOREVER)
    assert claim.case_id == second.record.id


@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        (ReviewerScope(), ["a", "b", "c"]),
        (ReviewerScope(models=("toy",)), ["a", "b"]),
        (ReviewerScope(groups=("east",)), ["b", "c"]),
        (ReviewerScope(models=("toy",), groups=("east",)), ["b"]),
        (ReviewerScope(models=()), []),
    ],
)
def test_people_see_and_get_what_is_theirs(database, scope, seen):
    made = {"a": entry(), "b": entry(group="east"), "c": entry(model="other", group="east")}
    with database.transaction() as connection:
        log.append(connection, list(made.values()))
        queue.enqueue(connection, [new_case(e) for e in made.values()])
    ids = {e.record.id: name for name, e in made.items()}
    assert [ids[c.id] for c in run(database, cases.listed, Filter(), scope=scope, limit=10)] == seen
    assert run(database, cases.backlog, scope).waiting == len(seen)
    got = []
    while claim := run(database, queue.claim_next, "ada", lease_seconds=FOREVER, scope=scope):
        got.append(ids[claim.case_id])
    assert got == seen
    for case_id, name in ids.items():
        if name not in seen:
            with pytest.raises(NotYours, match="not among those"):
                run(database, queue.claim, case_id, "ada", lease_seconds=FOREVER, scope=scope)


def test_lists_and_counts(database, held):
    run(database, queue.claim, held[1], "ada", lease_seconds=FOREVER)
    answer(database, held[3], "ada", undo=0)
    answer(database, held[4], "bob")
    run(database, settling.sweep, settling.Settlement())
    listed = {
        status: [case.id for case in run(database, cases.listed, Filter(statuses=(status,)), limit=10)]
        for status in Status
    }
    assert listed == {status: [] for status in Status} | {
        Status.WAITING: [held[0], held[2]],
        Status.CLAIMED: [held[1]],
        Status.ANSWERED: [held[4]],
        Status.RESOLVED: [held[3]],
    }
    assert [c.id for c in run(database, cases.listed, Filter(), limit=2, offset=1)] == held[1:3]
    assert [c.id for c in run(database, cases.listed, Filter(claimed_by="bob"), limit=9)] == [held[4]]
    assert [c.id for c in run(database, cases.listed, Filter(statuses=ENDED), limit=9)] == [held[3]]
    counts = run(database, cases.backlog)
    assert (counts.waiting, counts.claimed, counts.answered, counts.adjudication, counts.open) == (2, 1, 1, 0, 4)
    assert counts.oldest == datetime(2026, 11, 1, tzinfo=UTC)


def test_many_at_once_never_get_the_same_case(database):
    entries = [entry() for _ in range(60)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(e) for e in entries])
    start = threading.Barrier(8)

    def work(name):
        start.wait()
        mine = []
        while claim := run(database, queue.claim_next, name, lease_seconds=FOREVER):
            mine.append(claim.case_id)
        return mine

    with ThreadPoolExecutor(8) as pool:
        got = [case for mine in pool.map(work, map(str, range(8))) for case in mine]
    assert sorted(got) == sorted(e.record.id for e in entries)


@pytest.mark.parametrize(
    ("name", "becomes", "why"), [("bob", "adjudication", "those who decide"), ("ada", "waiting", "answered this case")]
)
def test_a_case_that_settles_meanwhile_goes_to_nobody_who_may_not_have_it(database, held, name, becomes, why):
    answer(database, held[0], "ada")
    scope = ReviewerScope(adjudicates=False)
    with ThreadPoolExecutor(1) as pool, database.transaction() as settling_one:
        settling_one.execute(
            "update review_items set status = %s, settles_at = null, claimed_by = null where id = %s",
            (becomes, held[0]),
        )
        claimed = pool.submit(run, database, queue.claim, held[0], name, lease_seconds=FOREVER, scope=scope)
        while not (claimed.done() or run(database, somebody_waits_for_a_lock)):
            pass
        settling_one.commit()
        with pytest.raises(NotYours, match=why):
            claimed.result()


def test_a_heartbeat_locks_the_case_before_the_draft_as_an_answer_does(database, held):
    """Else two of one person, sent at once, would each wait for the other."""
    claim = run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    run(database, queue.keep_draft, held[0], "ada", {"comment": "a"})
    values = {"token": claim.token, "lease_seconds": FOREVER, "draft": {"comment": "b"}}
    with ThreadPoolExecutor(1) as pool, database.transaction() as answering:
        answering.execute("select from review_items where id = %s for update", (held[0],))
        beat = pool.submit(run, database, queue.heartbeat, held[0], "ada", **values)
        while not (beat.done() or run(database, somebody_waits_for_a_lock)):
            pass
        answering.execute("select from review_drafts where case_id = %s for update nowait", (held[0],))
        answering.commit()
        assert beat.result().token == claim.token
    assert run(database, cases.draft_of, held[0], "ada") == {"comment": "b"}


def somebody_waits_for_a_lock(connection):
    return connection.execute("select exists (select from pg_locks where not granted)").fetchone()[0]


def test_inputs_are_forgotten_once_nobody_has_to_look_at_them(database):
    past = datetime.now(UTC) - timedelta(seconds=1)
    waits, done, answered = (replace(entry(), input_expires_at=past) for _ in range(3))
    with database.transaction() as connection:
        log.append(connection, [waits, done, answered])
        queue.enqueue(connection, [new_case(waits), new_case(done)])
    run(database, queue.withdraw, done.record.id, "lead", why="a double")
    assert run(database, queue.forget_inputs) == 2
    assert run(database, log.find_input, waits.record.id) is not None


def test_a_case_that_was_given_back_goes_to_others_and_not_to_the_same_person(database, held):
    first = run(database, queue.claim_next, "ada", lease_seconds=FOREVER)
    run(database, queue.release, first.case_id, "ada", token=first.token, away_seconds=FOREVER)
    assert run(database, queue.claim_next, "ada", lease_seconds=FOREVER).case_id == held[1]
    assert run(database, queue.claim_next, "bob", lease_seconds=FOREVER).case_id == held[0]


def test_what_only_its_giving_back_keeps_away_is_counted_and_comes_again(database, held):
    for case_id in held[:2]:
        claim = run(database, queue.claim, case_id, "ada", lease_seconds=FOREVER)
        run(database, queue.release, case_id, "ada", token=claim.token, away_seconds=60)
    others = [run(database, queue.claim_next, "ada", lease_seconds=FOREVER).case_id for _ in held[2:]]
    assert others == held[2:]
    assert run(database, queue.claim_next, "ada", lease_seconds=FOREVER) is None
    left = run(database, given_back.left_for, "ada")
    assert left.cases == 2
    assert 50 < left.seconds <= 60
    assert run(database, given_back.left_for, "ada", model="another") is None
    assert run(database, given_back.left_for, "bob") is None
    assert run(database, given_back.left_for, "ada", scope=ReviewerScope(models=("another",))) is None
    run(database, queue.claim, held[1], "bob", lease_seconds=FOREVER)
    assert run(database, given_back.left_for, "ada").cases == 1  # the other one is with somebody
    assert run(database, queue.claim_next, "ada", lease_seconds=FOREVER, again=True).case_id == held[0]
    assert run(database, given_back.left_for, "ada") is None  # they have taken that one again, and bob has the other


def test_the_time_of_a_case_that_was_given_back_runs_out(database, held):
    claim = run(database, queue.claim_next, "ada", lease_seconds=FOREVER)
    run(database, queue.release, claim.case_id, "ada", token=claim.token, away_seconds=60)
    with database.transaction() as connection:
        connection.execute("update review_given_back set until = clock_timestamp()")
    assert run(database, queue.claim_next, "ada", lease_seconds=FOREVER).case_id == held[0]


def test_whoever_claims_a_case_that_they_gave_back_has_changed_their_mind(database, held):
    claim = run(database, queue.claim_next, "ada", lease_seconds=FOREVER)
    run(database, queue.release, claim.case_id, "ada", token=claim.token, away_seconds=FOREVER)
    run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    run(database, queue.free, held[0], "ada", why="a test")
    assert run(database, queue.claim_next, "ada", lease_seconds=FOREVER).case_id == held[0]


def test_only_who_holds_a_case_can_let_go_of_it(database, held):
    run(database, queue.claim, held[0], "ada", lease_seconds=FOREVER)
    run(database, queue.free, held[0], "bob", why="a test")
    assert run(database, cases.case, held[0]).claimed_by == "ada"
    run(database, queue.free, held[0], "ada", why="a test")
    assert run(database, cases.case, held[0]).status is Status.WAITING
    assert run(database, cases.events_of, held[0])[-1].detail == {"why": "a test"}


def test_a_disputed_case_that_was_given_back_is_left_to_another_who_decides(database, held):
    for name, label in (("ada", "7"), ("bob", "1")):
        with database.transaction() as connection:
            connection.execute("update review_items set opinions_wanted = 2 where id = %s", (held[0],))
        answer(database, held[0], name, ReviewVerdict(label=label, saw_prediction=True), undo=0)
        run(database, settling.sweep, settling.Settlement())
    claim = run(database, queue.claim_next, "cleo", lease_seconds=FOREVER)
    assert (claim.case_id, claim.adjudicating) == (held[0], True)
    run(database, queue.release, held[0], "cleo", token=claim.token, away_seconds=FOREVER)
    assert run(database, queue.claim_next, "cleo", lease_seconds=FOREVER).case_id == held[1]
    assert run(database, given_back.left_for, "cleo").cases == 1
    assert run(database, given_back.left_for, "cleo", scope=ReviewerScope(adjudicates=False)) is None
    assert run(database, queue.claim_next, "dora", lease_seconds=FOREVER).case_id == held[0]
