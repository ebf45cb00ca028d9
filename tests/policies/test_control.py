"""Controls over what an artifact decides: the same as the pure functions step by step, within their bounds on any
stream, and never an answer that the artifact does not give."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.policies.adaptive import ipw_adaptive_alphas
from demur.policies.control import AdaptiveLevel, ControlledValue, PricedReviews, TrackedRate, TrackedRisk
from demur.policies.decision import Action
from demur.policies.review_price import ReviewPrice, price_run
from demur.policies.review_rate import ReviewRate, rate_run
from demur.policies.tracked_limit import TrackedLimit, threshold_track
from demur.uncertainty.checks import InvalidInput

CONFIDENCES = st.none() | st.floats(0, 1)
STREAMS = st.lists(CONFIDENCES, min_size=1, max_size=150)
DECIDED = st.lists(
    st.tuples(CONFIDENCES, st.sampled_from([Action.ANSWER, Action.REVIEW, Action.ABSTAIN])), min_size=1, max_size=150
)
STEPS = st.sampled_from([0.01, 0.2, 5.0])
LABELLED = st.lists(
    st.tuples(CONFIDENCES, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0, 4.0])), min_size=1, max_size=150
)


def number(confidence):
    return math.nan if confidence is None else confidence


def above(floor, confidence):
    """What a limit on confidence decides, as artifacts do."""
    return Action.ANSWER if confidence is not None and confidence >= floor else Action.REVIEW


def run(control, decided, course):
    """Steer a stream: the actions, and the course after each."""
    actions, courses = [], [course]
    for confidence, action in decided:
        steered = control.steer(action, number(confidence), courses[-1].value)
        actions.append(steered.action)
        courses.append(control.moved(courses[-1], steered.action, number(confidence)))
    return actions, courses


@given(STREAMS, st.floats(0, 1), STEPS, st.floats(0, 1), st.floats(0, 0.9), st.floats(0, 2))
def test_a_price_over_a_limit_is_the_run_with_that_floor(stream, capacity, step, floor, review_cost, price):
    control = PricedReviews(rule=ReviewPrice(capacity=capacity, step=step, review_cost=review_cost))
    actions, courses = run(control, [(c, above(floor, c)) for c in stream], ControlledValue.at(price))
    expected = price_run(stream, capacity, step, review_cost=review_cost, floor=floor, price=price)
    assert actions == expected.actions
    assert [course.value for course in courses] == expected.prices
    assert courses[-1].average == pytest.approx(expected.review_rate)


@given(STREAMS, st.floats(0, 1), STEPS, st.floats(0, 1), st.floats(0, 1))
def test_a_rate_over_a_limit_is_the_run_with_that_floor(stream, target, step, floor, start):
    control = TrackedRate(rule=ReviewRate(target=target, step=step))
    actions, courses = run(control, [(c, above(floor, c)) for c in stream], ControlledValue.at(start))
    expected = rate_run(stream, target, step, start, floor)
    assert actions == expected.actions
    assert [course.value for course in courses] == expected.thresholds


@pytest.mark.parametrize(
    "control",
    [
        PricedReviews(rule=ReviewPrice(capacity=0.1, step=0.3)),
        TrackedRate(rule=ReviewRate(target=0.1, step=0.3)),
    ],
)
@given(decided=DECIDED, start=st.floats(0, 1))
def test_on_any_stream_the_average_keeps_its_bounds_and_nothing_held_is_answered(control, decided, start):
    actions, courses = run(control, decided, ControlledValue.at(start))
    for course in courses[1:]:
        low, high = control.reach(course)
        assert not course.n or low - 1e-9 <= course.average <= high + 1e-9
    for (confidence, before), after in zip(decided, actions, strict=True):
        assert after is not Action.ANSWER or (before is Action.ANSWER and confidence is not None)
        assert before is not Action.ABSTAIN or after is Action.ABSTAIN


@given(LABELLED, st.sampled_from([0.01, 0.2]), st.sampled_from([0.001, 0.1, 3.0]), st.floats(0, 1))
def test_a_tracked_limit_is_the_run_where_labels_come_at_once(stream, target, step, start):
    control = TrackedRisk(rule=TrackedLimit(target=target, step=step), least=0.25)
    course, limits, answered = ControlledValue.at(start), [start], []
    for confidence, error, weight in stream:
        taken = control.steer(above(0.0, confidence), number(confidence), course.value).action
        answered.append(taken is Action.ANSWER)
        course = control.after_request(course, answered[-1])
        if answered[-1] and weight:
            course = control.after_label(course, error, weight)
        limits.append(course.value)
    u = [None if c is None else 1 - c for c, _, _ in stream]
    expected = threshold_track(u, [e for _, e, _ in stream], [w for *_, w in stream], target, step, start)
    assert answered == expected.answered
    assert limits == expected.thresholds
    assert min(limits) >= -step * (1 - target) / 0.25 - 1e-9
    assert course.average <= control.reach(course)[1] + 1e-9


@pytest.mark.slow
@given(LABELLED, st.integers(1, 40), st.floats(0, 1), st.lists(st.booleans(), min_size=150, max_size=150))
def test_a_tracked_limit_keeps_its_bound_however_late_labels_come(stream, late, start, held):
    control = TrackedRisk(rule=TrackedLimit(target=0.05, step=0.02), least=0.25)
    course, waiting = ControlledValue.at(start), []
    for at, (confidence, error, weight) in enumerate(stream):
        before = Action.REVIEW if held[at] else Action.ANSWER
        taken = control.steer(before, number(confidence), course.value).action
        assert taken is not Action.ANSWER or (before is Action.ANSWER and confidence is not None)
        course = control.after_request(course, taken is Action.ANSWER)
        if taken is Action.ANSWER and weight:
            waiting.append((at + late, error, weight))
        while waiting and waiting[0][0] <= at:
            course = control.after_label(course, *waiting.pop(0)[1:])
        assert course.average <= control.reach(course)[1] + 1e-9


@given(LABELLED, st.sampled_from([0.01, 0.3]), st.sampled_from([0.01, 0.5]))
def test_an_adaptive_level_is_the_run_where_labels_come_at_once(stream, alpha, step):
    """Sets are full at a level of 0 or below, and empty from 1 on."""
    control = AdaptiveLevel(alpha=alpha, step=step, least=0.25)
    course, levels, misses = ControlledValue.at(alpha), [alpha], []
    for confidence, _, weight in stream:
        hard = 0.5 if confidence is None else confidence
        miss = float(course.value > 0 and (course.value >= 1 or hard < course.value))
        course = control.after_request(course)
        if weight:
            course = control.after_label(course, miss, weight)
        misses.append(int(miss))
        levels.append(course.value)
        shortfall = sum(w * (m - alpha) for m, (*_, w) in zip(misses, stream, strict=False)) / course.n
        assert course.average == pytest.approx(alpha + shortfall)
        assert abs(shortfall) <= (1 + step / 0.25) / (step * course.n) + 1e-9
        low, high = control.reach(course)
        assert low - 1e-9 <= min(1, max(0, course.average)) <= high + 1e-9
    assert levels == ipw_adaptive_alphas(alpha, step, misses, [w for *_, w in stream])


def test_notes_name_the_control_and_its_present_value():
    price = PricedReviews(rule=ReviewPrice(capacity=0.1, step=0.1)).steer(Action.ANSWER, 0.7, 0.15)
    assert price.action is Action.REVIEW
    assert price.note == (
        "review_price: an error would cost 0.30 on average, more than a review at 0.25, of which 0.15 is the present"
        " price of reviewers' time"
    )
    rate = TrackedRate(rule=ReviewRate(target=0.1, step=0.1)).steer(Action.ANSWER, 0.7, 0.704)
    assert rate.action is Action.REVIEW
    assert rate.note == "review_rate: confidence 0.700 is below 0.704, the present limit for 0.1 of the stream"
    risk = TrackedRisk(rule=TrackedLimit(target=0.02, step=0.1), least=0.25).steer(Action.ANSWER, 0.75, 0.25)
    assert risk.action is Action.ANSWER
    assert risk.note == (
        "tracked_limit: confidence 0.75 is at or above 0.75, the present limit for errors in 0.02 of all requests"
    )


@pytest.mark.parametrize("changes", [{"alpha": 0}, {"alpha": 1}, {"step": 0}, {"least": 0}, {"least": 1.5}])
def test_a_level_that_cannot_be_is_refused(changes):
    with pytest.raises(InvalidInput):
        AdaptiveLevel(**{"alpha": 0.1, "step": 0.01, "least": 0.5, **changes})


def test_half_a_miss_is_refused():
    with pytest.raises(InvalidInput):
        AdaptiveLevel(alpha=0.1, step=0.01, least=0.5).after_label(ControlledValue.at(0.1), 0.5, 1)
