import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.consistency import combined, eigv_laplacian_jaccard

SAMPLES = st.lists(st.lists(st.sampled_from("ABCDE"), max_size=5), min_size=1, max_size=8)


def jaccard(a, b):
    return len(a & b) / len(a | b) if a | b else 1.0


@settings(deadline=None)
@given(SAMPLES)
def test_it_is_the_sum_of_inverse_degrees_between_one_and_n(samples):
    sets = [set(sample) for sample in samples]
    degrees = [sum(jaccard(a, b) for b in sets) for a in sets]
    value = eigv_laplacian_jaccard(samples)
    assert value == pytest.approx(sum(1 / degree for degree in degrees), abs=1e-9)
    assert 1 - 1e-9 <= value <= len(samples) + 1e-9


@pytest.mark.parametrize(
    ("samples", "value"),
    [
        ([["A"]], 1),
        ([[]], 1),
        ([[], [], []], 1),  # three times "nothing applies"
        ([[], ["A"]], 2),
        ([["A", "B"], ["B", "A", "A"]], 1),
        ([[1], [2], [1, 2]], 2 / 1.5 + 1 / 2),
    ],
)
def test_small_cases(samples, value):
    assert eigv_laplacian_jaccard(samples) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("bad", [[], None, "AB", ["AB"], [None], [["A"], None], [[["A"]]], [[math.nan]], [{"A": 1}], 3])
def test_what_is_no_list_of_label_sets_is_refused(bad):
    with pytest.raises(InvalidInput):
        eigv_laplacian_jaccard(bad)


def test_the_product_is_taken_row_by_row():
    np.testing.assert_allclose(combined([0.5, 2.0, 1e300], [4.0, 0.0, 1e300]), [2.0, 0.0, math.inf])


@pytest.mark.parametrize(("info", "cons"), [([1.0], [1.0, 2.0]), ([], []), ([math.nan], [1.0]), ([1.0], [math.inf])])
def test_the_product_of_what_does_not_fit_is_refused(info, cons):
    with pytest.raises(InvalidInput):
        combined(info, cons)
