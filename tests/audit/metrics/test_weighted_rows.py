import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.weighted_rows import weighted_mean
from demur.uncertainty.checks import InvalidInput

ROWS = st.lists(st.tuples(st.floats(-100, 100), st.integers(0, 5)), min_size=1, max_size=20)


@settings(deadline=None)
@given(ROWS, st.floats(1e-300, 1e300))
def test_whole_weights_are_repeated_rows_and_a_common_factor_changes_nothing(rows, factor):
    values, weights = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    repeated = np.repeat(values, weights.astype(int))
    found = weighted_mean(values, weights)
    assert weighted_mean(values, weights * factor) == pytest.approx(found, rel=1e-9, abs=1e-9, nan_ok=True)
    assert found == pytest.approx(repeated.mean() if len(repeated) else math.nan, rel=1e-9, abs=1e-9, nan_ok=True)


def test_what_has_no_label_is_never_read():
    assert weighted_mean([1, "unread", None, 0], [1, 0, 0, 3]) == 0.25
    assert weighted_mean(np.array([1, np.nan]), np.array([2, 0])) == 1
    assert math.isnan(weighted_mean([None], [0]))


@pytest.mark.parametrize("weight", [1e308, 5e-324])
def test_weights_at_the_ends_of_floats(weight):
    assert weighted_mean([1, 0], [weight, weight]) == 0.5


@pytest.mark.parametrize(
    ("values", "weights"),
    [([None], [1]), ([np.inf], [1]), ([1], [-1]), ([1], [np.nan]), ([1, 2], [1]), ([], []), ("1", [1]), (None, [1])],
)
def test_what_is_refused(values, weights):
    with pytest.raises(InvalidInput):
        weighted_mean(values, weights)
