import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.label_probability import BinaryEntropy, binary_entropy, binary_entropy_sample
from demur.uncertainty.output import Output

PROBABILITIES = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.floats(0, 1) | st.sampled_from([0, 1])
)
REDUCTIONS = {"sum": sum, "mean": lambda row: sum(row) / len(row), "max": max}


def by_hand(p):
    return -sum(q * math.log(q) for q in (p, 1 - p) if q > 0)


@settings(deadline=None)
@given(PROBABILITIES)
def test_it_is_the_entropy_of_yes_and_no(probs):
    wanted = [[by_hand(p) for p in row] for row in probs.tolist()]
    entropy = binary_entropy(probs)
    np.testing.assert_allclose(entropy, wanted, rtol=1e-12, atol=1e-15)
    assert (entropy >= 0).all()
    assert (entropy <= math.log(2) + 1e-15).all()
    for reduce, of in REDUCTIONS.items():
        np.testing.assert_allclose(binary_entropy_sample(probs, reduce=reduce), [of(row) for row in wanted], atol=1e-14)


def test_labels_that_are_certain_say_nothing_and_tiny_probabilities_are_not_clipped():
    np.testing.assert_array_equal(binary_entropy([[0, 1, 0.5]]), [[0, 0, math.log(2)]])
    assert binary_entropy([[1e-300]])[0, 0] == pytest.approx(1e-300 * (300 * math.log(10) + 1), rel=1e-9)


def test_the_sum_is_the_default_and_the_product_reads_it():
    output = Output.from_logits(np.array([[0.0, 2.0, -9.0], [3.0, 3.0, 3.0]]), link="sigmoid")
    wanted = binary_entropy(output.probabilities).sum(axis=1)
    np.testing.assert_array_equal(binary_entropy_sample(output.probabilities), wanted)
    np.testing.assert_array_equal(BinaryEntropy().of(output), wanted)
    np.testing.assert_array_equal(
        BinaryEntropy(reduce="max").of(output), binary_entropy(output.probabilities).max(axis=1)
    )


@pytest.mark.parametrize(
    "bad",
    [None, [], [[]], [0.5], [[[0.5]]], [[0.5], [0.5, 0.5]], [[1.1]], [[-1e-9]], [[math.nan]], [["0.5"]], [[None]]],
)
def test_what_is_no_matrix_of_probabilities_is_refused(bad):
    for function in (binary_entropy, binary_entropy_sample):
        with pytest.raises(InvalidInput):
            function(bad)


@pytest.mark.parametrize("reduce", ["median", "", None, 1, ["sum"]])
def test_an_unknown_reduction_is_refused(reduce):
    with pytest.raises(InvalidInput, match="reduce"):
        binary_entropy_sample([[0.5]], reduce=reduce)
    with pytest.raises(InvalidInput, match="reduce"):
        BinaryEntropy(reduce=reduce)
