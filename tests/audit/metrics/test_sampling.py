import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.sampling import allocate, completion_weights, label_draw_of, label_weights, missing_bounds
from demur.audit.metrics.weighted_rows import weighted_mean
from demur.uncertainty.checks import InvalidInput

CONFIDENCES = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 0.9, 1.0])), min_size=1, max_size=30)


@settings(deadline=None)
@given(CONFIDENCES, st.floats(0.001, 1), st.floats(0, 1))
def test_the_budget_is_spent_at_the_smallest_scale(confidence, floor, share):
    n, c = len(confidence), np.array(confidence)
    spread = np.sqrt(c * (1 - c))
    most = np.where(spread > 0, 1, floor).sum()
    budget = n * floor + share * (most - n * floor)
    found = allocate(confidence, budget, floor)
    assert found.probabilities.min() >= floor
    assert found.probabilities.max() <= 1
    assert found.probabilities.sum() == pytest.approx(budget, rel=1e-9)
    assert (found.probabilities[spread == 0] == floor).all()
    if math.isfinite(found.scale):
        np.testing.assert_allclose(found.probabilities, np.clip(found.scale * spread, floor, 1))
        less = np.clip(found.scale * (1 - 1e-6) * spread, floor, 1).sum()
        assert found.scale == 0 or less < budget or budget == pytest.approx(n * floor)


@pytest.mark.parametrize(
    ("confidence", "budget", "floor", "scale", "probabilities"),
    [
        ([0.5, 0.5], 1, 0.01, 1, [0.5, 0.5]),
        ([0.5, 1.0], 0.6, 0.1, 1, [0.5, 0.1]),
        ([0.5, 0.5], 2, 0.01, 2, [1, 1]),  # the smallest that spends it
        ([0.5, 0.5], 5, 0.01, math.inf, [1, 1]),
        ([0.5, 1.0], 1.5, 0.1, math.inf, [1, 0.1]),
        ([0.0, 1.0], 1, 0.1, math.inf, [0.1, 0.1]),
        ([0.2, 0.8], 0.2, 0.1, 0, [0.1, 0.1]),
        ([0.3] * 100, 0.07 * 100, 0.07, 0, [0.07] * 100),
        ([1e-320, 0.5], 1.2, 0.1, None, [0.2, 1]),
    ],
)
def test_allocation(confidence, budget, floor, scale, probabilities):
    found = allocate(confidence, budget, floor)
    np.testing.assert_allclose(found.probabilities, probabilities, rtol=1e-9)
    assert scale is None or found.scale == pytest.approx(scale)


def test_allocation_of_many_records():
    c = np.random.default_rng(0).random(300_000)
    assert allocate(c, 6_000, 0.005).probabilities.sum() == pytest.approx(6_000, rel=1e-12)


@pytest.mark.parametrize(
    "arguments",
    [([0.5], 0.001, 0.01), ([0.5], 1, 0), ([0.5], 1, 1.5), ([1.5], 1, 0.1), ([], 1, 0.1), ([0.5], math.nan, 0.1)],
)
def test_what_cannot_be_allocated(arguments):
    with pytest.raises(InvalidInput):
        allocate(*arguments)


def test_label_weights_are_unbiased_over_all_draws():
    values, probability = np.array([1.0, 0.0, 3.0]), [0.5, 0.1, 1.0]
    total = 0.0
    for labels in product([0, 1], repeat=3):
        chance = math.prod(pi if x else 1 - pi for x, pi in zip(labels, probability, strict=True))
        total += chance * (label_weights(labels, probability) @ values)
    assert total == pytest.approx(values.sum())


@pytest.mark.parametrize(
    ("labelled", "probability"), [([1], [0]), ([0], [0.0]), ([1], [1e-310]), ([1], [1.1]), ([2], [1]), ([1, 0], [1])]
)
def test_what_has_no_weight(labelled, probability):
    with pytest.raises(InvalidInput):
        label_weights(labelled, probability)


def test_completed_reviews_stand_for_the_missing_ones_of_their_stratum():
    found = completion_weights([1, 1, 1, 1, 0], [1, 0, 0, 1, 0], [0.5] * 4 + [1], ["a", "a", "a", "b", "c"])
    np.testing.assert_allclose(found.weights, [6, 0, 0, 2, 0])
    assert found.weights[:4].sum() == pytest.approx(4 / 0.5)  # as all that were drawn
    assert found.completion["a"] == pytest.approx(1 / 3)
    assert found.completion["b"] == 1
    assert math.isnan(found.completion["c"])  # none was drawn
    assert found.share_missing == 0.5
    assert found.refused == []


def test_a_stratum_without_a_review_is_refused_by_every_metric():
    found = completion_weights([1, 0, 1], [0, 0, 1], [1, 1, 1], ["a", "a", "b"])
    assert found.refused == ["a"]
    np.testing.assert_array_equal(found.weights, [math.nan, 0, 1])
    with pytest.raises(InvalidInput):
        weighted_mean([None, None, 1], found.weights)


def test_nothing_was_drawn():
    found = completion_weights([0, 0], [0, 0], [1, 1], ["a", "b"])
    assert math.isnan(found.share_missing)
    assert math.isnan(missing_bounds([None, None], [0, 0], [0, 0], [1, 1]).lower)
    assert math.isnan(missing_bounds([None, None], [0, 0], [0, 0], [1, 1]).share_missing)


def test_the_bounds_are_reached_by_some_missing_outcomes():
    errors, selected, completed = [1, None, 0, None, None], [1, 1, 1, 1, 0], [1, 0, 1, 0, 0]
    probability = np.array([1, 0.5, 0.1, 1, 1])
    weights = label_weights(selected, probability)
    risks = [weighted_mean([1, a, 0, b, None], weights) for a, b in product([0, 1], repeat=2)]
    found = missing_bounds(errors, selected, completed, probability)
    assert found.lower == pytest.approx(min(risks))
    assert found.upper == pytest.approx(max(risks))
    assert found.share_missing == 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {"completed": [1, 1]},  # reviewed though never drawn
        {"probability": [1, 0]},
        {"completed": [1]},
        {"selected": [1, 0, 0]},
    ],
)
def test_reviews_that_do_not_fit(changes):
    good = {"selected": [1, 0], "completed": [1, 0], "probability": [1, 0.5]}
    for function, more in ((completion_weights, {"strata": ["a", "b"]}), (missing_bounds, {"errors": [1, None]})):
        function(**good, **more)
        with pytest.raises(InvalidInput):
            function(**{**good, **changes}, **more)


@pytest.mark.parametrize(
    ("reviewed", "known", "probability", "weights", "common"),
    [
        ([1, 0, 1], [1, 0, 1], [0.5, 0.5, 0.5], [2, 0, 2], True),
        ([1, 0, 1], [1, 0, 1], [0.5, 0.5, 1.0], [2, 0, 1], False),
        ([0, 0, 1], [1, 0, 1], [0.5, 0.5, 0.5], [0, 0, 2], True),  # the first label came unasked
        ([1, 0, 1], [1, 0, 1], [0.0, 0.5, 0.5], [0, 0, 2], False),  # and here nobody could have asked for it
        ([0, 0, 0], [1, 1, 1], [0.0, 0.5, 1.0], [1, 1, 1], True),  # a source that covers every record
        ([0, 0, 0], [0, 0, 0], [0.0, 0.0, 0.0], [0, 0, 0], False),
    ],
)
def test_what_a_label_counts_for(reviewed, known, probability, weights, common):
    draw = label_draw_of(reviewed, known, probability)
    assert draw.weights.tolist() == weights
    assert draw.common is common
