"""Which share of labels a set leaves out, and a limit that keeps it (METHODS 10.4)."""

import numpy as np
import pytest

from demur.policies.label_share import label_share_control, labels_that_must_hold, missed_labels
from demur.policies.risk_control import conformal_risk_control

GRID = np.arange(101) / 100


def draw(rng, n):
    """Two labels that hold in 30% of rows, and probabilities that know a little."""
    truth = rng.random((n, 2)) < 0.3
    return np.clip(0.3 * rng.random((n, 2)) + 0.4 * truth + 0.3 * rng.random((n, 2)), 0, 1), truth


def test_it_is_risk_control_of_what_is_missed_less_what_is_allowed():
    rng = np.random.default_rng(0)
    p, truth = draw(rng, 300)
    lost = missed_labels(1 - p, truth, GRID)
    alpha, most = 0.1, 2
    losses = (lost.missed - alpha * lost.held[:, None] + alpha * most) / most
    other = conformal_risk_control(losses, GRID, alpha, upper=1.0)
    found = label_share_control(lost.missed, lost.held, GRID, alpha, most)
    assert (found.index, found.feasible) == (other.index, True)


def test_the_share_of_the_labels_that_hold_is_kept_on_average_over_fits():
    rng = np.random.default_rng(1)
    missed, held, by_row = 0, 0, 0
    for _ in range(100):
        lost = missed_labels(1 - (fit := draw(rng, 100))[0], fit[1], GRID)
        limit = label_share_control(lost.missed, lost.held, GRID, 0.2, 2)
        row_wise = conformal_risk_control(lost.share, GRID, 0.2)
        p, truth = draw(rng, 500)
        missed += (truth & (1 - p > limit.limit)).sum()
        by_row += (truth & (1 - p > row_wise.setting)).sum()
        held += truth.sum()
    assert missed / held <= 0.2
    assert by_row / held > 0.25  # the mean over rows is another promise


@pytest.mark.parametrize(("alpha", "most", "needed"), [(0.1, 1, 9), (0.1, 3, 27), (0.05, 1, 19), (0.2, 2, 8)])
def test_so_many_labels_must_hold(alpha, most, needed):
    assert labels_that_must_hold(alpha, most) == needed
    for n, feasible in ((needed, True), (needed - 1, False)):
        found = label_share_control(np.zeros((n, 1)), np.ones(n), [1.0], alpha, most)
        assert found.feasible is feasible


def test_where_no_label_holds_nothing_is_promised():
    found = label_share_control([[0], [0]], [0, 0], [1.0], 0.1, 1)
    assert not found.feasible
    assert np.isnan(found.share)
