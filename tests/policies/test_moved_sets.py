"""Prediction sets for traffic whose inputs have moved."""

from dataclasses import replace

import numpy as np
import pytest

from demur.calibration_store.parts import put_together, take_apart
from demur.policies.conformal_sets import SplitSets
from demur.policies.label_sets import needs_of_sets, not_ruled_out
from demur.policies.moved_inputs import CurrentTraffic
from demur.policies.moved_sets import moved_sets
from demur.policies.promise import MOVED_INPUTS
from demur.policies.selector import Selector
from demur.policies.threshold import Threshold
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.output import Output

ALPHA = 0.1
RECIPE = SplitSets(alpha=ALPHA)


def drawn(rng, n, shift=0.0):
    """A model that is right less often the larger x is, says the same of all rows, and shows x in its embedding."""
    x = rng.normal(shift, 1, (n, 1))
    noise = rng.normal(0, 0.3, n)
    p = 1 / (1 + np.exp(-(1.5 + noise)))
    classes = (rng.random(n) < 1 / (1 + np.exp(2.5 - 1.2 * x[:, 0]))).astype(int)
    probabilities = np.column_stack([p, 1 - p]) * 0.999 + 0.0005
    return Output.from_probabilities(probabilities, embedding=x), classes


def fitted(rng, shift=0.8, n=400):
    rows, classes = drawn(rng, n)
    traffic = CurrentTraffic(output=drawn(rng, n, shift)[0], weigh_by="embedding")
    return moved_sets(RECIPE, rows, classes, current=traffic, reference=drawn(rng, n)[0]), rows, classes


@pytest.mark.slow
def test_the_right_label_is_missed_as_seldom_as_promised_on_the_new_traffic():
    rng = np.random.default_rng(0)
    weighted, plain = [], []
    for _ in range(100):
        sets, rows, classes = fitted(rng)
        fresh, right = drawn(rng, 2_000, 0.8)
        at = np.arange(2_000), right
        weighted.append(not_ruled_out(sets, fresh, None)[at].mean())
        plain.append(RECIPE.fit(rows.probabilities, classes).of(fresh.probabilities)[at].mean())
    assert np.mean(weighted) >= 1 - ALPHA - 3 * np.std(weighted) / 10
    assert np.mean(plain) < np.mean(weighted) - 0.01


def test_what_they_promise_and_need():
    sets, _, _ = fitted(np.random.default_rng(1))
    assert sets.promise.assumption == MOVED_INPUTS
    assert sets.promise.feasible
    assert 50 < sets.promise.n < 400
    assert needs_of_sets(sets) == {"embedding"}
    assert needs_of_sets(replace(sets, weighting=replace(sets.weighting, by="confidence"))) == frozenset()
    with pytest.raises(InvalidInput, match="whole output"):
        sets.of(np.array([[0.5, 0.5]]))


def test_they_survive_the_artifact():
    sets, rows, _ = fitted(np.random.default_rng(2))
    selector = Selector(
        scores={},
        confidence_score="",
        calibrator=None,
        policy=Threshold(limit=0.5, meaning="the limit"),
        sets=sets,
    )
    again = put_together(*take_apart(selector)).sets
    np.testing.assert_array_equal(not_ruled_out(sets, rows, None), not_ruled_out(again, rows, None))


def test_rows_that_are_unlike_the_traffic_rule_nothing_out():
    sets, rows, _ = fitted(np.random.default_rng(3), shift=7.0)
    assert not sets.feasible
    assert not sets.promise.feasible
    assert not_ruled_out(sets, rows, None).all()


def test_each_row_is_judged_by_itself():
    sets, rows, _ = fitted(np.random.default_rng(4))
    one_by_one = np.vstack([sets.of_output(rows.rows(slice(at, at + 1))) for at in range(20)])
    np.testing.assert_array_equal(sets.of_output(rows)[:20], one_by_one)


def test_a_request_with_another_width_is_refused():
    sets, _, _ = fitted(np.random.default_rng(5))
    wide = Output.from_probabilities([[0.5, 0.5]], embedding=np.zeros((1, 3)))
    with pytest.raises(InvalidInput, match="features has 3 columns"):
        sets.of_output(wide)
