"""Audits with missing reviews, reviewers who err, no labels, open blocks (METHODS 10.7, 10.9, 10.10, 10.14)."""

from itertools import product

import numpy as np
import pytest

from demur.audit.metrics.assisted_risk_monitor import assisted_risk_monitor
from demur.audit.metrics.complete_blocks import complete_blocks
from demur.audit.metrics.confidence_strata import confidence_strata
from demur.audit.metrics.reviewers import corrected_rate
from demur.audit.metrics.risk_monitor import risk_monitor
from demur.audit.metrics.sampling import adaptive_spot_check, allocate, completion_weights
from demur.audit.metrics.unlabelled_risk import average_thresholded_confidence, expected_risk
from demur.audit.metrics.weighted_rows import weighted_mean


def test_reviews_that_are_slower_where_the_model_is_unsure_are_stood_for_by_their_like():
    rng = np.random.default_rng(0)
    plain, by_confidence, truth = [], [], []
    for _ in range(40):
        c = 1 / (1 + np.exp(-rng.normal(2.2, 1.6, 800)))
        c = c[c > 0.6]
        wrong = (rng.random(len(c)) > c).astype(float)
        done = (rng.random(len(c)) < np.where(c > 0.9, 0.9, 0.4)).astype(float)
        ones = np.ones(len(c))
        strata = confidence_strata(c, ones, done).strata
        for found, within in ((plain, ["all"] * len(c)), (by_confidence, strata)):
            found.append(weighted_mean(wrong, completion_weights(ones, done, ones, within).weights))
        truth.append(wrong.mean())
    assert np.mean(plain) < 0.85 * np.mean(truth)
    assert np.mean(by_confidence) == pytest.approx(np.mean(truth), rel=0.06)


def test_perfect_reviewers_seen_forever_leave_the_interval_of_agresti_and_coull():
    n, q, z = 400, 0.06, 1.959963984540054
    found = corrected_rate(q, n, 1, 1e12, 1, 1e12, 0.1)
    middle = (n * q + z**2 / 2) / (n + z**2)
    half = z * np.sqrt(middle * (1 - middle) / (n + z**2))
    assert (found.lower, found.upper) == pytest.approx((middle - half, middle + half))


def test_the_assisted_monitor_of_full_labels_is_the_plain_one():
    rng = np.random.default_rng(1)
    errors = (rng.random(300) < 0.2).astype(float)
    ones = np.ones(300)
    plain = risk_monitor(errors, ones, ones, 0.1, 1.0, start="first")
    assisted = assisted_risk_monitor(errors, ones, ones, rng.random(300), 0.1, 1.0, 0.4, start="first")
    assert assisted.log_wealth == pytest.approx(plain.log_wealth)
    assert assisted.alarm_at == plain.alarm_at


@pytest.mark.parametrize("direction", ["above", "below"])
@pytest.mark.parametrize("start", ["first", "any"])
def test_averaged_over_draws_and_errors_at_the_target_the_capital_is_1(direction, start):
    target, pi, f = 0.3, 0.5, [0.1, 0.6, 0.2]
    total = 0.0
    for labelled in product((0, 1), repeat=3):
        for errors in product((0, 1), repeat=3):
            chance = np.prod([pi] * 3) * np.prod([target if e else 1 - target for e in errors])
            alarm = assisted_risk_monitor(
                errors, labelled, [pi] * 3, f, target, 0.5, 0.5, direction=direction, start=start, stakes=[0.3, 0.7]
            )
            total += chance * np.exp(alarm.log_wealth[-1])
    assert total == pytest.approx(1)


def test_a_spot_check_that_follows_confidence_spends_the_rate():
    c = np.random.default_rng(2).beta(8, 1, 5_000)
    found = adaptive_spot_check(c, c, rate=0.05)
    assert found.probabilities.mean() == pytest.approx(0.05)
    assert found.probabilities == pytest.approx(allocate(c, 0.05 * len(c)).probabilities)


def test_calibrated_confidence_tells_the_risk_without_labels():
    rng = np.random.default_rng(3)
    c = rng.beta(5, 1, 4_000)
    right = (rng.random(4_000) < c).astype(float)
    found = expected_risk(c)
    assert found.estimate == pytest.approx(1 - right.mean(), abs=4 * found.standard_error)
    assert average_thresholded_confidence(c, right, c).estimate == pytest.approx(1 - right.mean(), abs=1e-3)


def test_a_monitor_that_is_fed_complete_blocks_sees_no_error_early():
    blocks, drawn = [1, 1, 2, 2], [1, 1, 1, 1]
    assert complete_blocks(blocks, drawn, [1, 0, 1, 1]).feed == []
    assert complete_blocks(blocks, drawn, [1, 1, 0, 1]).feed == [0, 1]
    assert complete_blocks(blocks, drawn, [1, 1, 1, 1]).waiting_block is None
