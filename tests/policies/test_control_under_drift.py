"""A service whose model gets worse half way: controls keep their averages, and a limit that was fitted does not."""

import numpy as np
import pytest

from demur.policies.conformal import quantile_at
from demur.policies.control import AdaptiveLevel, ControlledValue, PricedReviews, TrackedRate, TrackedRisk
from demur.policies.decision import Action
from demur.policies.review_price import ReviewPrice
from demur.policies.review_rate import ReviewRate
from demur.policies.tracked_limit import TrackedLimit

T = 100_000
CHECKED = 0.02
FITTED = 0.95
"""A limit on confidence that keeps 2% of all requests answered and wrong, before the change."""


def traffic(rng):
    """Confidence, whether it would be wrong, whether a label is drawn: an over-confident model, as in METHODS 9.9,
    that has forgotten a part of what it knew from the middle on."""
    z = rng.normal(2.2, 1.6, T)
    confidence = 1 / (1 + np.exp(-1.35 * z))
    z[T // 2 :] -= 1.2  # and its confidence does not know
    wrong = rng.random(T) > 1 / (1 + np.exp(-z))
    return confidence, wrong, rng.random(T) < CHECKED


def halves(values):
    return float(np.mean(values[: T // 2])), float(np.mean(values[T // 2 :]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_tracked_limit_keeps_the_joint_risk_where_a_fitted_one_does_not(seed):
    confidence, wrong, drawn = traffic(np.random.default_rng(seed))
    target = 0.02
    fixed = halves((confidence >= FITTED) & wrong)
    assert fixed[0] < 1.2 * target < 2 * target < fixed[1]
    control = TrackedRisk(rule=TrackedLimit(target=target, step=0.0005), least=CHECKED)
    course, answered = ControlledValue.at(1 - FITTED), np.zeros(T, dtype=bool)
    for at, (sure, error, labelled) in enumerate(zip(confidence.tolist(), wrong.tolist(), drawn.tolist(), strict=True)):
        answered[at] = control.steer(Action.ANSWER, sure, course.value).action is Action.ANSWER
        course = control.after_request(course, bool(answered[at]))
        if answered[at] and labelled:
            course = control.after_label(course, float(error), 1 / CHECKED)
    before, after = halves(answered & wrong)
    assert course.average == pytest.approx(target, abs=0.001)
    assert before < 1.3 * target
    assert after < 1.3 * target
    assert 0 < answered[T // 2 :].mean() < answered[: T // 2].mean()


@pytest.mark.slow
def test_prices_and_rates_keep_their_share_when_confidence_falls():
    rng = np.random.default_rng(0)
    z = rng.normal(2.2, 1.6, T)
    z[T // 2 :] -= 1.2  # this time its confidence knows
    confidence = (1 / (1 + np.exp(-1.35 * z))).tolist()
    for control, start in (
        (PricedReviews(rule=ReviewPrice(capacity=0.1, step=0.01)), 0.0),
        (TrackedRate(rule=ReviewRate(target=0.1, step=0.01)), 0.5),
    ):
        course, reviewed = ControlledValue.at(start), np.zeros(T, dtype=bool)
        for at, sure in enumerate(confidence):
            held = Action.ANSWER if sure >= 0.3 else Action.REVIEW
            steered = control.steer(held if isinstance(control, PricedReviews) else Action.ANSWER, sure, course.value)
            reviewed[at] = steered.action is Action.REVIEW
            course = control.moved(course, steered.action, sure)
        for share in halves(reviewed):
            assert share == pytest.approx(0.1, abs=0.003)
    assert halves(np.array(confidence) < 0.3)[1] > 0.15  # that a limit would hold


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_sets_at_a_moving_level_miss_as_often_as_they_may_where_fitted_ones_miss_more(seed):
    rng = np.random.default_rng(seed)
    alpha, ranked = 0.1, np.sort(rng.beta(1, 6, 1000))  # 1 - p of the right label
    scores = np.concatenate([rng.beta(1, 6, T // 2), rng.beta(1, 3, T // 2)])
    drawn = rng.random(T) < CHECKED
    fixed = halves(scores > quantile_at(ranked, alpha))
    assert fixed[0] == pytest.approx(alpha, abs=0.03)
    assert fixed[1] > 2.5 * alpha
    control = AdaptiveLevel(alpha=alpha, step=0.02 * CHECKED, least=CHECKED)
    course, missed = ControlledValue.at(alpha), np.zeros(T, dtype=bool)
    for at, (score, labelled) in enumerate(zip(scores.tolist(), drawn.tolist(), strict=True)):
        missed[at] = score > quantile_at(ranked, course.value)
        course = control.after_request(course)
        if labelled:
            course = control.after_label(course, float(missed[at]), 1 / CHECKED)
    for share in halves(missed):
        assert share == pytest.approx(alpha, abs=0.02)
