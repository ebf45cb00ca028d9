import numpy as np
import pytest

from demur.audit.metrics.resampling import Interval
from demur.audit.report.plan import Settings
from demur.audit.report.resamples import Resamples, widened


@pytest.mark.parametrize(
    ("n", "factor"),
    [
        (np.inf, 1.0),
        (1e9, 1.0),
        (7, 2.6430 / 1.9600),  # t of 6 degrees at 0.975 is 2.4469; times sqrt(7/6) that is 2.6430
        (2, np.nan),
    ],
)
def test_what_few_rows_carry_is_wider(n: float, factor: float) -> None:
    found = widened(Interval(lower=0.4, upper=0.8), 0.5, n, 0.05)
    assert found.lower == pytest.approx(0.5 - factor * 0.1, abs=1e-4, nan_ok=True)
    assert found.upper == pytest.approx(0.5 + factor * 0.3, abs=1e-4, nan_ok=True)


@pytest.mark.slow
def test_means_of_few_rows_are_covered() -> None:
    """The plain percentiles of samples of twenty rows, of which six vary, miss their mean far too often."""
    rng = np.random.default_rng(0)
    hits = {np.inf: 0, 6.0: 0}
    resamples = Resamples(20, Settings(replicates=999))
    for _ in range(400):
        rows = np.zeros((20, 2))
        rows[:6, 0], rows[:6, 1] = rng.normal(size=6), 1.0
        again = resamples.of(rows)
        means = again[:, 0] / np.where(again[:, 1] > 0, again[:, 1], np.nan)
        for n in hits:
            found = widened(resamples.interval(means), rows[:6, 0].mean(), n, 0.05)
            hits[n] += bool(found.lower <= 0 <= found.upper)
    assert hits[6.0] >= 0.93 * 400
    assert hits[np.inf] < 0.92 * 400
