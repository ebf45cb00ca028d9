import numpy as np
import pytest

from audit.report.plan import Settings
from audit.report.resamples import Resamples, expanded


@pytest.mark.parametrize(
    ("n", "level"),
    [
        (np.inf, 0.05),
        (1e9, 0.05),
        (7, 2 * 0.0041),  # t of 6 degrees at 0.975 is 2.447; times sqrt(7/6) that is 2.643 standard deviations
        (2, 0.0),  # t of one degree is 12.7
    ],
)
def test_few_rows_are_read_further_out(n: float, level: float) -> None:
    assert expanded(0.05, n) == pytest.approx(level, abs=1e-4)


@pytest.mark.slow
def test_means_of_few_rows_are_covered() -> None:
    """The plain percentiles of samples of six rows miss their mean far too often."""
    rng = np.random.default_rng(0)
    settings = Settings(replicates=1_999)
    hits = {np.inf: 0, 6.0: 0}
    for _ in range(300):
        rows = np.zeros((20, 1))
        rows[:6] = rng.normal(size=(6, 1))  # the other rows add nothing
        again = Resamples(20, settings).of(np.hstack([rows, np.repeat([[1.0], [0.0]], [6, 14], axis=0)]))
        means = again[:, 0] / np.where(again[:, 1] > 0, again[:, 1], np.nan)
        for n in hits:
            found = Resamples(20, settings).interval(means, errors=n)
            hits[n] += bool(found.lower <= 0 <= found.upper)
    assert hits[6.0] >= 0.93 * 300
    assert hits[np.inf] < 0.92 * 300
