"""A canary that leaves its bounds is stopped, and one that keeps within them is left alone."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from demur.calibration_store.folder import ArtifactsUnreachable
from demur.review.disagreement import DecidedCheck
from demur.serve.jobs import canary_watch
from demur.serve.jobs.canary_watch import SETTLED, CanaryWatch
from demur.traffic import log
from demur.traffic.arrivals import arrived
from tests.conftest import entry

START = datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture
def watched(two, database):
    """A canary for the digits, its watch, and the moment that the clock shows."""
    config, store, first, second = two
    moment = [START]

    def clock():
        return moment[0]

    store.start_canary(
        "digits", second, share=0.5, held_between=(0.1, 0.4), max_risk=0.1, by="ada", why="", clock=clock
    )
    return config, store, first, second, moment, CanaryWatch(config, store, database, clock=clock)


def send(database, artifact, held, *, at=START, wrong=None, probability=0.5, source="review"):
    """Put predictions of an artifact on record, each held or not; with `wrong`, also what people said of them."""
    entries = [
        entry(
            model="digits",
            artifact=artifact,
            created_at=at + timedelta(milliseconds=number),
            action="review" if holds else "answer",
            prediction="7",
            label_probability=1.0 if holds else probability,
        )
        for number, holds in enumerate(held)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        for one, error in zip(entries, [] if wrong is None else wrong, strict=wrong is not None):
            log.add_outcome(connection, one.record.id, label="1" if error else "7", source=source, author="ada")
    return [one.record.id for one in entries if one.record.action == "answer"]


def second_looks(*, hits=100, missed=0, accused=0):
    """What second looks found of first ones: 2,000 at right answers, of which so many were called wrong."""
    counts = ((True, True, hits), (False, True, missed), (False, False, 2_000 - accused), (True, False, accused))
    return [DecidedCheck(first_overturns=said, truth_overturns=true, spot_check=True, n=n) for said, true, n in counts]


def look(watched, *, later=timedelta(minutes=1)):
    _, store, _, _, moment, watch = watched
    moment[0] += later
    watch.look()
    return store.standing("digits").canary


def shares(share, n, seed=0):
    return (np.random.default_rng(seed).random(n) < share).tolist()


@pytest.mark.parametrize("share", [0.1, 0.25, 0.4])
def test_a_canary_within_its_bounds_goes_on(watched, database, share):
    send(database, watched[3], shares(share, 2000))
    assert look(watched) is not None
    assert look(watched) is not None


@pytest.mark.parametrize("share", [0.0, 0.02, 0.6, 1.0])
def test_one_that_holds_too_much_or_too_little_is_stopped_and_the_history_says_why(watched, database, share):
    _, store, first, second, *_ = watched
    send(database, second, shares(share, 400))
    assert look(watched) is None
    last = store.history("digits")[-1]
    assert (last.action, last.by, last.standing.in_force) == ("stop_canary", "demur", first)
    assert "of 400 predictions, and was to hold 10.0% to 40.0%" in last.why


def test_a_few_predictions_are_no_evidence(watched, database):
    send(database, watched[3], [True] * 5)
    assert look(watched) is not None


def test_what_comes_in_portions_counts_together_and_once(watched, database):
    _, _, _, second, moment, watch = watched
    for portion in range(20):
        send(database, second, shares(0.25, 100, seed=portion), at=moment[0])
        assert look(watched) is not None
    (followed,) = watch._followed.values()
    assert followed.n == 2000
    assert followed.held == sum(sum(shares(0.25, 100, seed=portion)) for portion in range(20))


def test_after_a_restart_what_came_is_counted_anew_a_portion_at_a_time(watched, database, monkeypatch):
    sizes = []

    def noted(*args, **settings):
        sizes.append(len(found := arrived(*args, **settings)))
        return found

    monkeypatch.setattr("demur.serve.jobs.canary_watch.AT_A_TIME", 64)
    monkeypatch.setattr("demur.serve.jobs.canary_watch.arrived", noted)
    held = shares(0.25, 200)
    send(database, watched[3], held)
    assert look(watched) is not None
    (followed,) = watched[-1]._followed.values()
    assert (followed.n, followed.held) == (200, sum(held))
    assert sizes == [64, 64, 64, 8]


def test_only_what_has_settled_is_counted(watched, database):
    _, _, _, second, moment, watch = watched
    send(database, second, [False] * 50, at=moment[0])
    look(watched, later=SETTLED)  # the first is five seconds old, and none is older
    assert watch._followed["digits"].n == 0
    look(watched, later=timedelta(seconds=1))
    assert watch._followed["digits"].n == 50


def test_others_do_not_count(watched, database):
    _, _, first, second, *_ = watched
    send(database, first, [True] * 500)
    send(database, second, [True] * 500, at=START - timedelta(hours=1))  # of an earlier canary
    assert look(watched) is not None


def test_checked_answers_that_are_wrong_too_often_stop_it(watched, database):
    _, store, _, second, *_ = watched
    held = shares(0.25, 400)
    send(database, second, held, wrong=shares(0.5, 400, seed=1))
    assert look(watched) is None
    assert "checked answers" in store.history("digits")[-1].why
    assert "and at most 10.0% may be" in store.history("digits")[-1].why


@pytest.mark.parametrize(
    "told",
    [
        {"wrong": shares(0.08, 400, seed=1)},
        {"wrong": shares(0.9, 400, seed=1), "source": "api"},  # who complains is not drawn
        {"wrong": shares(0.9, 400, seed=1), "probability": 0.0},
    ],
)
def test_few_errors_and_labels_that_were_not_drawn_do_not(watched, database, told):
    send(database, watched[3], shares(0.25, 400), **told)
    assert look(watched) is not None


def test_errors_of_reviewers_do_not_stop_it_where_second_looks_explain_them(watched, database, monkeypatch):
    """Reviewers call 25% of the answers wrong. For 20% that is their own error, and at most 10% may be wrong."""
    _, store, _, second, *_ = watched
    send(database, second, shares(0.25, 400), wrong=shares(0.25, 400, seed=1), probability=1.0)
    monkeypatch.setattr(canary_watch, "decided_checks", lambda *_, until: second_looks(accused=400))
    assert look(watched) is not None
    monkeypatch.setattr(canary_watch, "decided_checks", lambda *_, until: second_looks(accused=0))
    assert look(watched) is None
    assert store.history("digits")[-1].why.endswith(
        "by how often they err, reviewers call 10.0% wrong where so many are"
    )


def test_errors_that_reviewers_miss_stop_it(watched, database, monkeypatch):
    """They see half of the wrong answers, and call 10% of all wrong."""
    send(database, watched[3], shares(0.25, 2_000), wrong=shares(0.1, 2_000, seed=1), probability=1.0)
    assert look(watched) is not None
    monkeypatch.setattr(canary_watch, "decided_checks", lambda *_, until: second_looks(hits=100, missed=100))
    assert look(watched) is None


def test_what_others_told_is_not_corrected_for_reviewers(watched, database, monkeypatch):
    """The outcome that counts came from elsewhere in a single case."""
    looks = second_looks(hits=100, missed=100)
    monkeypatch.setattr(canary_watch, "decided_checks", lambda *_, until: looks)
    ids = send(database, watched[3], shares(0.25, 2_000), wrong=shares(0.1, 2_000, seed=1), probability=1.0)
    with database.transaction() as connection:
        log.add_outcome(connection, ids[0], label="7", source="lab", author=None)
    assert look(watched) is not None


def test_a_canary_that_is_started_again_is_judged_anew(watched, database):
    _, store, _, second, moment, watch = watched
    send(database, second, [True] * 8)
    assert look(watched) is not None
    store.start_canary(
        "digits", second, share=0.1, held_between=(0.0, 1.0), max_risk=None, by="ada", why="", clock=lambda: moment[0]
    )
    send(database, second, [True] * 500, at=moment[0])
    assert look(watched) is not None  # it may hold everything now
    assert watch._followed["digits"].n == 500


def test_a_store_that_is_away_is_asked_again(watched, database, monkeypatch):
    _, store, _, second, *_ = watched
    send(database, second, [True] * 400)

    def away(model):
        raise ArtifactsUnreachable("the artifacts cannot be reached")

    with monkeypatch.context() as patch:
        patch.setattr(store, "standing", away)
        watched[5].look()
    assert store.standing("digits").canary is not None
    assert look(watched) is None


def test_the_share_of_false_alarms_is_small():
    """Ninety canaries that hold just as much as they may."""
    from demur.audit.metrics.risk_monitor import new_risk_monitor
    from demur.serve.jobs.canary_watch import BOUNDS, FALSE_ALARM

    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(90):
        monitor = new_risk_monitor(0.4, 1.0, delta=FALSE_ALARM / BOUNDS)
        ones = np.ones(1000)
        alarms += monitor.updated((rng.random(1000) < 0.4).astype(float), ones, ones).alarm_at is not None
    assert alarms <= 8  # of a chance of 1.7% each, nine or more come up once in 50,000
