import numpy as np
import pytest
from scipy.stats import ks_2samp

from demur.audit.metrics.score_drift import ks, psi
from demur.uncertainty.checks import InvalidInput


def test_without_a_change_psi_is_about_what_is_expected():
    rng = np.random.default_rng(0)
    found = [psi(rng.random(1_000), rng.random(200)) for _ in range(300)]
    assert np.mean([one.psi for one in found]) == pytest.approx(found[0].expected, rel=0.1)
    assert np.mean([one.p_value < 0.05 for one in found]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_a_change_is_found_and_no_bin_is_ever_empty():
    found = psi(np.arange(100), np.full(50, 1e6))
    assert np.isfinite(found.psi)
    assert found.psi > 1
    assert found.p_value < 1e-9


def test_ties_make_fewer_bins():
    found = psi([1, 1, 1, 1], [1, 2])  # one edge: up to 1, and above
    assert found.n_bins == 2
    assert found.expected == pytest.approx(1 / 4 + 1 / 2)
    assert found.psi == pytest.approx((0.9 - 0.5) * np.log(0.9 / 0.5) + (0.1 - 0.5) * np.log(0.1 / 0.5))


def test_ks_is_scipys_statistic_with_kolmogorovs_limit():
    rng = np.random.default_rng(1)
    old, new = rng.normal(size=400).round(1), rng.normal(0.2, size=300).round(1)
    found, want = ks(old, new), ks_2samp(old, new, method="asymp")
    assert found.statistic == pytest.approx(want.statistic)
    z = found.statistic * np.sqrt(400 * 300 / 700)
    assert found.p_value == pytest.approx(2 * sum((-1) ** (k - 1) * np.exp(-2 * k**2 * z**2) for k in range(1, 50)))
    assert ks(old, old).p_value == 1
    assert ks([0.0], [1.0]).statistic == 1


@pytest.mark.parametrize(
    "changes", [{"reference": []}, {"current": [np.nan]}, {"n_bins": 1}, {"n_bins": 2.0}, {"current": [[1.0]]}]
)
def test_what_is_refused(changes):
    with pytest.raises(InvalidInput):
        psi(**{"reference": [1, 2], "current": [1, 2], **changes})
