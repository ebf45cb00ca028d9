import numpy as np
import pytest

from audit import resampling
from audit.resampling import percentile_interval, resampled


@pytest.mark.parametrize(
    ("values", "delta", "ends"),
    [
        (np.arange(1, 1_000), 0.05, (25, 975)),
        (np.arange(1, 2_000)[::-1], 0.05, (50, 1_950)),
        (np.arange(1, 20), 0.1, (1, 19)),  # 0.05 x 20 is 1, and not a little less
        (np.arange(1, 20), 0.05, (np.nan, np.nan)),
        ([*range(1, 96), *[np.nan] * 5], 0.1, (4, 92)),
        ([*range(1, 95), *[np.nan] * 6], 0.1, (np.nan, np.nan)),
    ],
)
def test_the_interval_is_made_of_order_statistics(values, delta, ends):
    found = percentile_interval(np.array(values, dtype=np.float64), delta=delta)
    np.testing.assert_array_equal([found.lower, found.upper], ends)


def test_samples_are_rows_drawn_with_replacement(monkeypatch):
    columns = np.random.default_rng(0).normal(size=(50, 2))
    whole = resampled(columns, lambda sums: sums, rng=np.random.default_rng(1), replicates=30)
    rng = np.random.default_rng(1)
    by_hand = [columns[rng.integers(50, size=50)].sum(axis=0) for _ in range(30)]
    np.testing.assert_allclose(whole, by_hand)
    monkeypatch.setattr(resampling, "CELLS_AT_A_TIME", 400)  # in blocks of 8
    np.testing.assert_allclose(
        resampled(columns, lambda sums: sums, rng=np.random.default_rng(1), replicates=30), whole
    )
