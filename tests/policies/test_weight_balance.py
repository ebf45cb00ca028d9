"""Weights of the right form are seldom refused, and those of a wrong one nearly always."""

from dataclasses import replace

import numpy as np
import pytest

from demur.policies.conformal_sets import SplitSets
from demur.policies.moved_inputs import CurrentTraffic, row_weights
from demur.policies.moved_sets import moved_sets
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.weight_balance import ComparedRows, imbalance
from demur.uncertainty.output import Output
from tests.policies.conftest import graded

RULE = SelectiveRisk(max_risk=0.15, delta=0.1, method="ltt_fixed_sequence", bound="betting", limits=(0.5,))


def output(x):
    """Rows of which the confidence says nothing and the embedding everything."""
    return Output.from_probabilities(np.tile([0.9, 0.1], (len(x), 1)), embedding=np.asarray(x, dtype=float))


def surest(one):
    return one.probabilities.max(axis=1)


def weighed(before, certifying, now):
    return row_weights(
        CurrentTraffic(output=output(now), weigh_by="embedding"), output(before), output(certifying), surest
    )


def normal(mean=0.0, sd=1.0, d=1):
    return lambda rng, n: rng.normal(mean, sd, (n, d))


def two_hills(rng, n):
    return rng.normal(0, 0.4, (n, 1)) + rng.choice([-1.3, 1.3], (n, 1))


def together(rho):
    return lambda rng, n: rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], n)


def refused(before, now, *, n, draws, seed=0):
    rng = np.random.default_rng(seed)
    return sum(weighed(before(rng, n), before(rng, n), now(rng, n)).imbalance is not None for _ in range(draws)) / draws


def test_what_differs_is_named_with_both_numbers():
    rng = np.random.default_rng(0)
    found = weighed(*(rng.normal(size=(500, 1)) for _ in range(2)), rng.normal(0, 2, (500, 1)))
    assert "the spread of number 1 of the embedding (its variance, by that of the traffic) is 0." in found.wrong
    assert "label rows of the new traffic" in found.wrong
    rows = replace(graded(np.full(500, 0.9), np.ones(500)), weights=found.weights, max_weight=found.max_weight)
    assert np.isfinite(RULE.fit(rows).limit)
    fitted = RULE.fit(replace(rows, wrong_weights=found.wrong))
    assert not fitted.promise.feasible
    assert fitted.meaning == found.wrong


def test_sets_are_refused_as_well():
    rng = np.random.default_rng(1)
    p = rng.beta(4, 2, (400, 1)) / 2 + 0.5
    before, rows = (Output.from_probabilities(np.hstack([one, 1 - one])) for one in (p[:200], p[200:]))
    q = rng.uniform(0.5, 1, (400, 1))
    now = CurrentTraffic(output=Output.from_probabilities(np.hstack([q, 1 - q])))
    sets = moved_sets(SplitSets(alpha=0.1), rows, np.zeros(200, dtype=int), current=now, reference=before)
    assert "the confidence" in sets.wrong_weights
    assert not sets.feasible
    assert sets.of_output(rows).all()


def test_columns_that_are_constant_tell_nothing():
    same = ComparedRows(features=np.ones((200, 2)), confidence=np.full(200, 0.5))
    assert imbalance(np.ones((200, 2)), same, same, 20.0) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "now", "n"),
    [
        (normal(), normal(), 100),
        (normal(), normal(0.8), 100),
        (normal(), normal(0.8), 500),
        (together(0.5), together(0.5), 300),
    ],
)
def test_weights_of_the_right_form_are_seldom_refused(before, now, n):
    assert refused(before, now, n=n, draws=100) <= 0.12  # 5% are allowed, and one in a thousand tests would fail here


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "now"), [(normal(), normal(0, 2)), (normal(), two_hills), (together(0.0), together(0.6))]
)
def test_weights_of_a_wrong_form_are_refused(before, now):
    assert refused(before, now, n=300, draws=40) >= 0.95


@pytest.mark.slow
def test_a_promise_whose_weights_have_the_wrong_form_is_no_longer_made():
    """The risk is 6% in the middle and grows to both sides, and so does the spread of the traffic. Weights along a line
    stay at 1, and without the check the promise of at most 15% is made, and broken, in most fits."""
    rng, n, draws = np.random.default_rng(2), 500, 60

    def risk(x):
        return np.minimum(0.06 + 0.05 * x**2, 0.9)

    assert risk(2 * rng.normal(size=100_000)).mean() > 0.2
    unchecked = made = 0
    for _ in range(draws):
        x = rng.normal(size=n)
        found = weighed(rng.normal(size=(n, 1)), x[:, None], rng.normal(0, 2, (n, 1)))
        rows = graded(np.full(n, 0.9), rng.random(n) >= risk(x))
        rows = replace(rows, weights=found.weights, max_weight=found.max_weight)
        unchecked += np.isfinite(RULE.fit(rows).limit)
        made += np.isfinite(RULE.fit(replace(rows, wrong_weights=found.wrong)).limit)
    assert unchecked > 0.5 * draws
    assert made <= 0.05 * draws
