import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from uncertainty import class_probability as scores
from uncertainty.checks import InvalidInput


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
