"""Rows of before that stand for other traffic: what is promised holds there, or nothing is promised."""

from dataclasses import replace

import numpy as np
import pytest

from demur.policies.covariate_shift import effective_number, fit_weight_model
from demur.policies.moved_inputs import CurrentTraffic, row_weights
from demur.policies.promise import MOVED_INPUTS
from demur.policies.selective_risk import SelectiveRisk
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.output import Output
from tests.policies.conftest import graded

RULE = SelectiveRisk(max_risk=0.15, delta=0.1, method="ltt_fixed_sequence", bound="betting", limits=(0.5,))


def output(x):
    """Rows of which the confidence says nothing and the embedding everything."""
    rows = np.asarray(x, dtype=float)
    return Output.from_probabilities(np.tile([0.9, 0.1], (len(rows), 1)), embedding=rows)


def confidence(one):
    return one.probabilities.max(axis=1)


def by_embedding(reference, current, certifying):
    traffic = CurrentTraffic(output=output(current), weigh_by="embedding")
    return row_weights(traffic, output(reference), output(certifying), confidence)


def risk_at(x):
    return 1 / (1 + np.exp(2.6 - 1.1 * x))


def fits(rng, runs, n=500):
    """Whether a limit was promised with weights, and without, for traffic that moved from N(0, 1) to N(0.8, 1)."""
    for _ in range(runs):
        x = rng.normal(size=n)
        found = by_embedding(rng.normal(size=(n, 1)), rng.normal(0.8, 1, (n, 1)), x[:, None])
        rows = graded(np.full(n, 0.9), rng.random(n) >= risk_at(x))
        moved = replace(rows, weights=found.weights, max_weight=found.max_weight)
        yield np.isfinite(RULE.fit(moved).limit), np.isfinite(RULE.fit(rows).limit)


@pytest.mark.slow
@pytest.mark.long
def test_a_promise_that_the_new_traffic_breaks_is_seldom_made():
    rng = np.random.default_rng(0)
    x = rng.normal(size=100_000)
    assert risk_at(x).mean() < 0.12 < 0.15 < risk_at(x + 0.8).mean()
    runs = 200
    weighted, unweighted = np.mean(list(fits(rng, runs)), axis=0)
    assert weighted <= 0.1
    assert unweighted > 0.5


def test_the_promise_says_what_must_be_true():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1_000, 1))
    found = by_embedding(rng.normal(size=(400, 1)), rng.normal(0.3, 1, (400, 1)), x)
    rows = replace(graded(np.full(1_000, 0.9), np.ones(1_000)), weights=found.weights, max_weight=found.max_weight)
    fitted = RULE.fit(rows)
    assert fitted.limit == 0.5
    assert fitted.promise.assumption == MOVED_INPUTS
    assert fitted.promise.bound is None
    assert fitted.meaning.endswith("on traffic like that for which the labelled rows were weighted")
    with pytest.raises(InvalidInput, match="rows with weights take"):
        SelectiveRisk(max_risk=0.15, method="ltt").fit(rows)


def test_rows_that_tell_too_little_promise_nothing():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 1))
    found = by_embedding(rng.normal(size=(400, 1)), rng.normal(6, 0.5, (400, 1)), x)
    assert found.share_unlike > 0.5
    rows = replace(graded(np.full(400, 0.9), np.ones(400)), weights=found.weights, max_weight=found.max_weight)
    apart = RULE.fit(replace(rows, unlike=found.share_unlike))
    assert np.isinf(apart.limit)
    assert not apart.promise.feasible
    assert "of the new traffic is like hardly any labelled row, and 10% is the most" in apart.meaning
    few = RULE.fit(replace(rows, weights=np.where(np.arange(400) < 10, 20.0, 0.1)))
    assert np.isinf(few.limit)
    assert "and 50 are the least; label rows of the new traffic" in few.meaning


def test_the_answered_rows_must_tell_enough_too():
    """All rows together tell as much as 200; the 40 that would be answered do not."""
    sure = np.where(np.arange(200) < 40, 0.9, 0.1)
    rows = replace(graded(sure, np.ones(200)), weights=np.ones(200), max_weight=1.0)
    fitted = RULE.fit(rows)
    assert np.isinf(fitted.limit)
    assert fitted.meaning.startswith("40 labelled rows that would be answered tell as much of the new traffic as 40")


def test_weights_that_are_all_clipped_or_0_promise_nothing():
    rows = graded(np.full(300, 0.9), np.ones(300))
    assert np.isinf(RULE.fit(replace(rows, weights=np.zeros(300), max_weight=20.0)).limit)
    assert effective_number(np.zeros(3)) == 0
    assert effective_number(np.full(300, 20.0)) == pytest.approx(300)


def test_a_wide_embedding_goes_by_its_principal_components():
    rng = np.random.default_rng(3)
    old, new, more = (rng.normal(size=(400, 40)) for _ in range(3))
    new[:, 0] += 3
    old[:, 0] *= 3
    found = by_embedding(old, new, more)
    assert found.by == "embedding"
    assert found.weights.shape == (400,)
    assert 0 < found.n_effective <= 400


def test_confidence_alone_does_as_well_and_unusable_rows_count_nothing():
    rng = np.random.default_rng(4)
    p = rng.uniform(0.5, 1, 300)
    rows = np.column_stack([p, 1 - p])
    rows[:5] = np.nan
    found = row_weights(
        CurrentTraffic(output=Output.from_probabilities(rows[5:])),
        Output.from_probabilities(rows),
        Output.from_probabilities(rows),
        confidence,
    )
    assert (found.weights[:5] == 0).all()
    assert found.weights[5:] == pytest.approx(1, abs=0.01)
    assert found.n_current == found.n_reference == 295


def test_what_cannot_be_weighed_is_refused():
    ten = output(np.zeros((10, 1)))
    many = output(np.random.default_rng(5).normal(size=(100, 1)))
    with pytest.raises(InvalidInput, match="10 rows of the traffic have a usable embedding; weights take 100 at least"):
        row_weights(CurrentTraffic(output=ten, weigh_by="embedding"), many, many, confidence)
    bare = Output.from_probabilities(np.tile([0.9, 0.1], (100, 1)))
    with pytest.raises(InvalidInput, match="the model gives none; weigh by confidence"):
        row_weights(CurrentTraffic(output=bare, weigh_by="embedding"), many, many, confidence)
    model = fit_weight_model(np.random.default_rng(6).normal(size=(60, 2)), np.ones((60, 2)))
    with pytest.raises(InvalidInput, match="features has 3 columns, and the weights were fitted on 2"):
        model.of(np.ones((5, 3)))
