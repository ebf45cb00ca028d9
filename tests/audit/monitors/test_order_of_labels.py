"""A monitor that takes labels in the order of the answers is not fooled by reviewers who find errors first."""

from datetime import UTC, datetime, timedelta

import pytest

from demur.audit.monitors import feeding
from demur.audit.monitors.arrivals import label_cursor, record_cursor
from demur.audit.monitors.risk import RiskSettings, new_risk_state, risk_state_from_json
from demur.audit.monitors.wording import risk_sentence, waiting_sentence
from demur.audit.state import standing
from demur.review import queue
from demur.review.item import Kind
from demur.traffic import log
from tests.audit.monitors.traffic_made import watched
from tests.conftest import entry, new_case

IN_ORDER = RiskSettings(target=0.1, delta=0.05, in_order=True)
BEGUN = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def served(database):
    """Write answers that were drawn for a check, one minute apart, and return their ids."""

    def write(n, begun=BEGUN, **changes):
        entries = [
            entry(action="answer", label_probability=0.1, created_at=begun + timedelta(minutes=at), **changes)
            for at in range(n)
        ]
        with database.transaction() as connection:
            log.append(connection, entries)
            queue.enqueue(connection, [new_case(one, kind=Kind.SPOT_CHECK) for one in entries])
        return [one.record.id for one in entries]

    return write


@pytest.fixture
def say(database):
    def review(ids, label="7"):
        with database.transaction() as connection:
            for record_id in ids:
                log.add_outcome(connection, record_id, label=label, source="review", author="ada")

    return review


def state_of(database, one):
    raised = []
    with database.transaction() as connection:
        feeding.begin(connection, one)
    more = True
    while more:
        with database.transaction() as connection:
            fed = feeding.feed_risk(connection, one)
        raised += fed.alarms
        more = fed.more
    with database.transaction() as connection:
        row = standing.taken(connection, one.model, one.artifact, "risk")
    return risk_state_from_json(row.state), raised


def one_of(wait_hours=24 * 36500, **changes):
    return watched(risk=IN_ORDER, wait_seconds=3600 * wait_hours, **changes)


def test_errors_that_are_found_first_raise_no_alarm(database, served, say):
    """One in ten answers is wrong, which is just what may be. All errors are reviewed before any right answer."""
    ids = served(200)
    wrong = ids[::10]
    say(wrong, "1")
    assert new_risk_state(RiskSettings(target=0.1, delta=0.05), 0.1).updated([1.0] * 20, [0.1] * 20).alarmed
    state, raised = state_of(database, one_of())
    assert (state.n_labelled, state.errors, raised) == (1, 1, [])
    assert "2026-11-21 00:01:00 UTC" in waiting_sentence(state)
    say([one for one in ids if one not in wrong])
    state, raised = state_of(database, one_of())
    assert (state.n_labelled, state.errors, state.late, raised) == (200, 20, 0, [])
    assert (state.waiting_since, waiting_sentence(state)) == (None, "")


def test_the_order_of_reviews_does_not_matter(database, served, say, monkeypatch):
    monkeypatch.setattr(feeding, "AT_A_TIME", 7)
    ids = served(60)
    wrong = set(ids[::7])
    expected = new_risk_state(IN_ORDER, 0.1).updated([float(one in wrong) for one in ids], [0.1] * 60)
    for turn in range(6):
        say([one for one in ids[turn::6] if one in wrong], "1")
        say([one for one in ids[turn::6] if one not in wrong])
        state, _ = state_of(database, one_of())
    assert state == expected


def test_a_review_that_comes_too_late_counts_as_right_for_the_alarm_and_wrong_for_the_interval(database, served, say):
    ids = served(100)
    say(ids[:50])
    state, raised = state_of(database, one_of(wait_hours=1))  # all of these are older than an hour
    assert (state.n_labelled, state.late, state.errors, raised) == (100, 50, 0.0, [])
    right = new_risk_state(IN_ORDER, 0.1).updated([0.0] * 100, [0.1] * 100)
    worst = new_risk_state(IN_ORDER, 0.1).updated([0.0] * 50 + [1.0] * 50, [0.1] * 100)
    assert state.bets == right.bets
    assert (state.lower, state.upper) == (pytest.approx(right.lower), pytest.approx(worst.upper))
    assert state.estimate == 0  # of those that were reviewed
    assert "50 without a review in time counted as right" in risk_sentence(state)
    assert risk_state_from_json(state.as_json()) == state
    say(ids[50:], "1")  # too late
    assert state_of(database, one_of(wait_hours=1))[0] == state


def test_a_case_that_ended_without_a_word_is_not_waited_for(database, served, say):
    ids = served(3)
    say(ids[1:])
    state, _ = state_of(database, one_of())
    assert state.n_labelled == 0  # the first may still be answered
    with database.transaction() as connection:
        expired = "update review_items set status = 'expired', ended_at = clock_timestamp() where id = %s"
        connection.execute(expired, (ids[0],))
    state, _ = state_of(database, one_of())
    assert (state.n_labelled, state.late) == (3, 1)


def test_a_round_of_before_begins_anew_and_reads_its_cursor(database, served, say):
    ids = served(30)
    say(ids)
    state, _ = state_of(database, watched())
    assert state.n_labelled == 30
    state, _ = state_of(database, one_of())
    assert state.n_labelled == 0  # what was decided before the new round counts no more
    assert RiskSettings(target=0.1, delta=0.05).as_json() == {"target": 0.1, "delta": 0.05}  # as before there was order
    assert label_cursor({"at": BEGUN.isoformat(), "id": str(ids[0])}).settled == 0
    assert record_cursor({"settled": 9, "beyond": [], "horizon": 9, "open_before": None}).at is None


def test_a_cursor_that_finds_nothing_moves_on(database, served):
    served(1, artifact="toy-2")
    state_of(database, one_of())
    with database.transaction() as connection:
        row = standing.taken(connection, "toy", "toy-1", "risk")
    at = record_cursor(row.cursor).at
    assert at is not None
    assert datetime.now(UTC) - at < timedelta(minutes=1)
