import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from demur.uncertainty import class_probability as scores
from demur.uncertainty.checks import InvalidInput


@st.composite
def passes(draw):
    shape = draw(st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6)))
    raw = draw(arrays(np.float64, shape, elements=st.floats(0.001, 1)))
    return raw / raw.sum(axis=-1, keepdims=True)


@given(passes())
def test_total_uncertainty_is_model_uncertainty_plus_expected_entropy(mc_probs):
    expected = np.array([[scores.entropy(row[None])[0] for row in item] for item in mc_probs]).mean(axis=1)
    np.testing.assert_allclose(scores.mc_entropy(mc_probs), scores.bald(mc_probs) + expected, atol=1e-12)


@given(passes())
def test_one_pass_says_nothing_about_the_model(mc_probs):
    single = mc_probs[:, :1]
    assert (scores.bald(single) == 0).all()
    assert (scores.probability_variance(single) == 0).all()
    np.testing.assert_allclose(scores.sampled_max_probability(single), scores.softmax_response(single[:, 0]))


@pytest.mark.parametrize("score", [scores.softmax_response, scores.entropy, scores.margin])
def test_surest_and_least_sure(score):
    sure, unsure = score([[1.0, 0.0, 0.0]])[0], score([[1 / 3, 1 / 3, 1 / 3]])[0]
    assert sure == 0
    assert unsure > 0.6


@pytest.mark.parametrize(
    "bad",
    [
        [[0.5, float("nan")]],
        [[0.5, 0.4]],  # sums to 0.9
        [[1.2, -0.2]],
        [[0.5, 0.5], [1.0]],
        [],
        [0.5, 0.5],
        [["x", 0.5]],
    ],
)
def test_what_is_no_distribution_is_refused(bad):
    with pytest.raises(InvalidInput):
        scores.entropy(bad)


def test_rows_within_rounding_of_one_are_taken_as_they_are():
    assert scores.softmax_response([[0.5, 0.4999999]])[0] == 0.5


def plain_entropy(row):
    return -sum(p * math.log(p) for p in row if p > 0)


def by_hand(item):
    """Every score of PRED Table 7 for one row of T passes over C classes."""
    t, c = len(item), len(item[0])
    mean = [sum(p[j] for p in item) / t for j in range(c)]
    ranked = sorted(item[0], reverse=True)
    spread = [sum((p[j] - mean[j]) ** 2 for p in item) / t for j in range(c)]
    return {
        "softmax_response": 1 - ranked[0],
        "margin": 1 - (ranked[0] - ranked[1]) if c > 1 else 0,
        "entropy": plain_entropy(item[0]),
        "sampled_max_probability": 1 - max(mean),
        "mc_entropy": plain_entropy(mean),
        "probability_variance": sum(spread) / c,
        "bald": max(0, plain_entropy(mean) - sum(plain_entropy(p) for p in item) / t),
    }


@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_every_score_is_its_definition(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 5), rng.integers(1, 6), rng.integers(1, 6)
    counts = rng.integers(0, 4, size=shape) + (np.arange(shape[2]) == 0)  # zeros, ties and rows of one class
    mc_probs = counts / counts.sum(axis=2, keepdims=True)
    wanted = [by_hand(item) for item in mc_probs.tolist()]
    for name in wanted[0]:
        given = mc_probs[:, 0] if name in ("softmax_response", "margin", "entropy") else mc_probs
        got = getattr(scores, name)(given)
        np.testing.assert_allclose(got, [row[name] for row in wanted], atol=1e-12, err_msg=name)
    summed = scores.probability_variance(mc_probs, reduce="sum")
    np.testing.assert_allclose(summed, scores.probability_variance(mc_probs) * shape[2], atol=1e-12)


@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_passes_that_agree_and_are_certain_leave_no_uncertainty(t, c, data):
    one_hot = np.eye(c)[data.draw(st.integers(0, c - 1))]
    mc_probs = np.tile(one_hot, (2, t, 1))
    for score in (scores.mc_entropy, scores.bald, scores.probability_variance, scores.sampled_max_probability):
        assert (score(mc_probs) == 0).all()


@pytest.mark.parametrize("score", [scores.mc_entropy, scores.bald, scores.probability_variance])
@pytest.mark.parametrize("bad", [[], [[0.5, 0.5]], [[[0.5, 0.4]]], [[[math.nan, 1]]], None, [[["1", "0"]]], [[[]]]])
def test_what_is_no_batch_of_passes_is_refused(score, bad):
    with pytest.raises(InvalidInput):
        score(bad)


@pytest.mark.parametrize("reduce", ["max", None, ["mean"], 1])
def test_an_unknown_reduction_is_refused(reduce):
    with pytest.raises(InvalidInput, match="reduce"):
        scores.probability_variance([[[0.5, 0.5]]], reduce=reduce)
