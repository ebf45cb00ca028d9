"""Weights for traffic whose inputs have moved (METHODS 10.12)."""

import numpy as np
import pytest

from demur.policies.conformal import conformal_quantile
from demur.policies.covariate_shift import shift_weights, weighted_conformal_quantile


def test_without_a_shift_all_weigh_about_the_same():
    rows = np.random.default_rng(0).normal(size=(200, 2))
    found = shift_weights(rows, rows)
    assert found.status == "ok"
    assert found.weights == pytest.approx(np.ones(200), abs=1e-6)


def test_weights_have_the_mean_1_before_they_are_clipped():
    rng = np.random.default_rng(1)
    reference, current = rng.normal(size=(300, 1)), rng.normal(0.8, 1, size=(300, 1))
    loose = shift_weights(reference, current, max_weight=1e9)
    assert loose.weights.mean() == pytest.approx(1)
    tight = shift_weights(reference, current, max_weight=2)
    assert tight.weights.max() == 2
    assert tight.share_clipped > 0
    assert shift_weights(reference, current + 5).status == "refused"


def test_equal_weights_give_the_plain_quantile_and_whole_ones_repeat_rows():
    rng = np.random.default_rng(2)
    scores, times = rng.random(40), rng.integers(0, 4, 40)
    for alpha in (0.05, 0.1, 0.3):
        assert weighted_conformal_quantile(scores, np.ones(40), [1], alpha)[0] == conformal_quantile(scores, alpha)
        repeated = conformal_quantile(np.repeat(scores, times), alpha)
        assert weighted_conformal_quantile(scores, times, [1], alpha)[0] == repeated


def test_weighted_sets_cover_the_new_traffic_and_plain_ones_do_not():
    """The label is noisier where the input is larger, and inputs get larger."""
    rng = np.random.default_rng(3)
    covered = np.zeros(2)
    for _ in range(40):
        x, new = rng.normal(size=300), rng.normal(0.8, 1, 300)
        scores, later = (np.abs(rng.normal(size=300)) * np.exp(at) for at in (x, new))
        found = shift_weights(x[:, None], new[:, None])
        own = weighted_conformal_quantile(scores, found.weights, found.current_weights, 0.1)
        covered += [(later <= conformal_quantile(scores, 0.1)).mean() / 40, (later <= own).mean() / 40]
    assert covered[0] < 0.85
    assert covered[1] > 0.88
