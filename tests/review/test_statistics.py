"""Histories of a queue, put together by hand, and what must be said about them."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from demur.review import disagreement, statistics
from demur.review.disagreement import DecidedCheck, LabelPair, OverturnCount, PersonsWork, SecondLooks
from demur.review.item import ReviewerScope
from demur.review.statistics import EmptyWindow, StatisticsWindow, Waits
from tests.review.history import History

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY = StatisticsWindow(since=NOON - timedelta(hours=24), until=NOON)


def ago(hours: float) -> datetime:
    return NOON - timedelta(hours=hours)


@pytest.fixture
def past(database):
    return History(database)


def asked(database, question, window=DAY, **options):
    with database.transaction() as connection:
        return question(connection, window, **options)


def test_a_window_has_a_length():
    with pytest.raises(EmptyWindow, match="ends at"):
        StatisticsWindow(since=NOON, until=NOON)


def test_what_came_and_went(past, database):
    past.case(created=ago(100), ended=ago(50))  # long over
    past.case(created=ago(30), claimed=ago(23), ended=ago(22))
    past.case(created=ago(20), claimed=ago(19), ended=ago(16))
    past.case(created=ago(10), claimed=ago(9.5), ended=ago(9))
    past.case(created=ago(10), ended=ago(4), status="expired")
    past.case(created=ago(3), claimed=ago(1), status="claimed")
    past.case(model="letters", created=ago(2))
    past.case(model="letters", created=ago(-1))  # after the window
    past.case(model="letters", created=ago(40), claimed=ago(39), status="claimed")  # looked at before it
    everything, digits, letters = asked(database, statistics.flows)
    assert (everything.model, digits.model, letters.model) == (None, "digits", "letters")
    assert (everything.open, everything.arrived, everything.ended, everything.resolved) == (3, 5, 4, 3)
    assert (digits.open, digits.arrived, digits.ended, digits.resolved) == (1, 4, 4, 3)
    assert (letters.open, letters.arrived, letters.ended, letters.resolved) == (2, 1, 0, 0)
    # first claimed after 7, 1, 0.5 and 2 hours; resolved after 8, 4 and 1
    assert digits.to_first_claim == Waits(n=4, median=1.5 * 3600, p95=pytest.approx((2 + 0.85 * 5) * 3600))
    assert digits.to_resolution == Waits(n=3, median=4 * 3600, p95=pytest.approx((4 + 0.9 * 4) * 3600))
    assert letters.to_first_claim.n == 0
    assert math.isnan(letters.to_first_claim.median)
    assert everything.resolved_per_hour == 3 / 24


def test_a_young_queue_is_measured_from_its_first_case(past, database):
    past.case(created=ago(2), ended=ago(1))
    assert asked(database, statistics.flows)[0].resolved_per_hour == 0.5
    past.case(created=ago(60), ended=ago(50))  # it was there before
    assert asked(database, statistics.flows)[0].resolved_per_hour == 1 / 24


def test_an_empty_queue(database):
    (everything,) = asked(database, statistics.flows)
    assert (everything.open, everything.arrived, everything.resolved_per_hour) == (0, 0, 0)
    assert math.isnan(everything.to_resolution.median)
    curve = asked(database, statistics.backlog_curve, points=4)
    assert curve.open == [0] * 5
    for question in (disagreement.overturned, disagreement.together, disagreement.checked, disagreement.work):
        assert asked(database, question) == []
    with database.transaction() as connection:
        assert statistics.standings(connection) == []


def test_the_backlog_over_time(past, database):
    past.case(created=ago(30), ended=ago(13))
    past.case(created=ago(30), ended=ago(25))
    past.case(created=ago(24), ended=ago(12))  # on the edges
    past.case(created=ago(11.9), ended=ago(11.8))  # between two points
    past.case(created=ago(5))
    past.case(created=ago(1), ended=ago(-1))  # still open at the end
    curve = asked(database, statistics.backlog_curve, points=4)
    assert curve.at == [ago(24), ago(18), ago(12), ago(6), NOON]
    assert curve.open == [1, 2, 1, 0, 2]
    assert curve.arrived == [1, 0, 1, 2]
    assert curve.ended == [0, 1, 2, 0]


def test_the_curve_ends_where_the_flow_does(past, database):
    for index in range(40):
        past.case(created=ago(index * 1.3), ended=ago(index * 1.3 - 2.7 * (index % 3) - 0.1) if index % 7 else None)
    flow, curve = asked(database, statistics.flows)[0], asked(database, statistics.backlog_curve)
    assert len(curve.at) == len(curve.open) == 61
    assert curve.open[-1] == flow.open
    assert sum(curve.arrived) == flow.arrived
    assert sum(curve.ended) == flow.ended


def test_only_what_lies_in_the_scope(past, database):
    past.case(created=ago(5), group="north")
    past.case(created=ago(5), group=None)
    past.case(model="letters", created=ago(5), group="north")
    window = replace(DAY, scope=ReviewerScope(models=("digits",), groups=("north",)))
    assert [flow.arrived for flow in asked(database, statistics.flows, window)] == [1, 1]
    assert asked(database, statistics.backlog_curve, window).open[-1] == 1


def test_how_often_people_overturn_the_model(past, database):
    past.case(created=ago(5), ended=ago(4), confidence=0.62, prediction="7", label="7")
    past.case(created=ago(5), ended=ago(4), confidence=0.68, prediction="7", label="1", said=[("ada", "1", False)])
    past.case(
        created=ago(5),
        ended=ago(4),
        confidence=0.64,
        prediction="7",
        label="1",
        said=[("ada", "1", True), ("ben", "1", False)],
    )
    past.case(created=ago(5), ended=ago(4), confidence=1.0, prediction="7", label="7", said=[("ada", "7", False)])
    past.case(created=ago(5), ended=ago(4), confidence=None, prediction="7", label="1", said=[("ada", "1", False)])
    past.case(created=ago(5), ended=ago(4), prediction=None, label="1")  # there was nothing to overturn
    past.case(created=ago(5), ended=ago(4), prediction="7", label=None)  # nobody could tell
    past.case(created=ago(99), ended=ago(98), prediction="7", label="1")  # not in the window
    first = past.case(created=ago(99), ended=ago(98), prediction="7", label="7")
    past.re_review(first, created=ago(9), ended=ago(8), label="1")  # a look at people, not at the model
    found = asked(database, disagreement.overturned)
    assert found == [
        OverturnCount(lower=0.6, upper=0.7, saw_prediction=False, n=1, overturned=1, confidence=pytest.approx(0.68)),
        OverturnCount(lower=0.6, upper=0.7, saw_prediction=True, n=2, overturned=1, confidence=pytest.approx(0.63)),
        OverturnCount(lower=0.9, upper=1.0, saw_prediction=False, n=1, overturned=0, confidence=1.0),
        replace(found[3], lower=None, upper=None, saw_prediction=False, n=1, overturned=1),
    ]
    assert math.isnan(found[3].confidence)
    assert [row.n for row in asked(database, disagreement.overturned, bins=2)] == [2, 2, 1]


def test_sets_of_labels_are_overturned_as_a_whole(past, database):
    past.case(created=ago(5), ended=ago(4), confidence=0.5, prediction=["a", "b"], label=["a", "b"])
    past.case(created=ago(5), ended=ago(4), confidence=0.5, prediction=["a", "b"], label=["a"])
    (row,) = asked(database, disagreement.overturned)
    assert (row.n, row.overturned) == (2, 1)


def test_what_was_said_about_one_case(past, database):
    for _ in range(2):
        past.case(created=ago(5), ended=ago(1), said=[("ada", "7", True), ("ben", "7", True)])
    past.case(created=ago(5), ended=ago(1), said=[("ada", "7", False), ("ben", "1", True), ("eva", "1", None)])
    past.case(created=ago(5), ended=ago(1), said=[("ada", "1", False), ("ben", "7", False)])
    past.case(created=ago(5), ended=ago(1), said=[("ada", "7", False)])
    past.case(created=ago(5), ended=ago(1), said=[("ada", "7", False), ("ben", None, False)])  # cannot tell
    past.case(created=ago(50), ended=ago(40), said=[("ada", "7", False), ("ben", "7", False)])
    undone = past.case(created=ago(5), ended=ago(1), said=[("ada", "7", False), ("ben", "7", False)])
    past.undo(undone, "ben")
    assert asked(database, disagreement.together) == [
        LabelPair(labels=("7", "7"), saw_prediction=True, n=2),
        LabelPair(labels=("1", "7"), saw_prediction=False, n=1),
        LabelPair(labels=("1", "7"), saw_prediction=None, n=1),  # the third decided between them
    ]


def test_what_re_reviews_found(past, database):
    agreed = past.case(created=ago(9), ended=ago(8), prediction="7", label="1", said=[("ada", "1", True)])
    missed = past.case(created=ago(9), ended=ago(8), prediction="7", label="7", said=[("ada", "7", False)])
    still = past.case(created=ago(9), ended=ago(8), prediction="7", label="7", said=[("ada", "7", False)])
    old = past.case(created=ago(50), ended=ago(45), label="1")
    past.re_review(agreed, created=ago(7), ended=ago(6), label="1", said=[("ben", "1", False)])
    past.re_review(missed, created=ago(7), ended=ago(6), label="1", said=[("ben", "1", False), ("eva", "1", None)])
    past.re_review(still, created=ago(7), said=[("ben", "3", False)], status="adjudication")
    past.re_review(old, created=ago(40), ended=ago(30), label="1", said=[("ben", "1", False)])  # not in the window
    assert asked(database, disagreement.checked) == [
        SecondLooks(first="1", second="1", saw_prediction=True, first_overturns=True, truth_overturns=True, n=1),
        SecondLooks(first="7", second="1", saw_prediction=False, first_overturns=False, truth_overturns=True, n=1),
        SecondLooks(first="7", second="3", saw_prediction=False, first_overturns=False, truth_overturns=None, n=1),
    ]
    assert asked(database, disagreement.checked, replace(DAY, scope=ReviewerScope(models=("letters",)))) == []
    with database.transaction() as connection:
        now, before, other = (
            disagreement.decided_checks(connection, model, until=until)
            for model, until in (("digits", ago(0)), ("digits", ago(6.5)), ("letters", ago(0)))
        )
    assert now == [
        DecidedCheck(first_overturns=False, truth_overturns=True, spot_check=False, n=1),
        DecidedCheck(first_overturns=True, truth_overturns=True, spot_check=False, n=2),
    ]
    assert before == [DecidedCheck(first_overturns=True, truth_overturns=True, spot_check=False, n=1)]
    assert other == []


def test_what_each_person_did(past, database):
    past.case(
        created=ago(5), ended=ago(1), label="7", said=[("ada", "7", True), ("ben", "1", True), ("eva", "7", None)]
    )
    past.case(created=ago(5), ended=ago(1), label="7", said=[("ada", "7", True), ("ben", "7", True)])
    past.case(created=ago(5), ended=ago(1), label="7", said=[("ada", "7", True)])  # nobody to compare with
    past.case(created=ago(5), status="adjudication", said=[("ben", None, True)])
    first = past.case(created=ago(50), ended=ago(40), label="7", said=[("ada", "7", True)])
    past.re_review(first, created=ago(7), ended=ago(6), label="1", said=[("ben", "3", False), ("eva", "1", None)])
    other = past.case(created=ago(50), ended=ago(40), label="7", said=[("ada", "7", True)])
    past.re_review(other, created=ago(7), ended=ago(6), label="7", said=[("ben", "7", False)])  # beside the first one
    ben, ada, eva = asked(database, disagreement.work)
    assert ben == PersonsWork(
        reviewer="ben", opinions=5, median_seconds=10, cannot_tell=1, decided=0, compared=4, agreed=2, skipped=0
    )
    assert (ada.reviewer, ada.opinions, ada.compared, ada.agreed) == ("ada", 3, 2, 2)
    assert (eva.reviewer, eva.opinions, eva.decided, eva.compared) == ("eva", 2, 2, 0)


def test_how_each_queue_stands(past, database):
    now = datetime.now(UTC)
    past.case(created=now - timedelta(hours=3))
    past.case(created=now - timedelta(hours=2), due=now - timedelta(hours=1))
    past.case(created=now - timedelta(hours=9), status="claimed", claimed=now)
    past.case(created=now - timedelta(hours=9), status="adjudication", due=now + timedelta(hours=1))
    past.case(model="letters", created=now - timedelta(hours=3), ended=now - timedelta(minutes=30))
    past.case(model="letters", created=now - timedelta(hours=3), ended=now - timedelta(minutes=90), opinions=2)
    split = {"opinions": 2, "resolution": "adjudicated"}
    past.case(model="letters", created=now - timedelta(days=3), ended=now - timedelta(days=2), **split)
    past.case(model="letters", created=now - timedelta(days=30), ended=now - timedelta(days=8), **split)
    with database.transaction() as connection:
        digits, letters = statistics.standings(connection)
    assert (digits.waiting, digits.claimed, digits.adjudication, digits.overdue) == (2, 1, 1, 1)
    assert digits.oldest_seconds == pytest.approx(9 * 3600, abs=60)
    assert (letters.waiting, letters.oldest_seconds, letters.resolved_last_hour) == (0, 0, 1)
    assert (letters.compared, letters.disagreed) == (2, 1)
