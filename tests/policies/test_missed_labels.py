import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.missed_labels import LIMITS, MissedLabelLimit, shares_missed
from demur.uncertainty.checks import InvalidInput


def draw(rng, n, labels=6):
    logits = rng.normal(-1, 1.5, size=(n, labels))
    return 1 / (1 + np.exp(-logits)), rng.random((n, labels)) < 1 / (1 + np.exp(-0.7 * logits))


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_shares_are_counted_as_they_are_defined(seed):
    rng = np.random.default_rng(seed)
    p, truth = rng.integers(0, 6, size=(7, 4)) / 5, rng.random((7, 4)) < 0.5
    limits = np.array([1.0, 0.8, 0.6, 0.5, 0.2, 0.0])
    slow = [
        [np.mean([p[i, j] < t for j in range(4) if truth[i, j]]) if truth[i].any() else 0.0 for t in limits]
        for i in range(7)
    ]
    np.testing.assert_allclose(shares_missed(p, truth, limits), slow)


@pytest.mark.slow
def test_the_promise_holds_on_average_and_is_not_wasted():
    rng = np.random.default_rng(0)
    risks, limits = [], []
    fresh = draw(rng, 20_000)
    for _ in range(100):
        fitted = MissedLabelLimit(alpha=0.1).fit(*draw(rng, 300))
        limits.append(fitted.limits[0])
        risks.append(shares_missed(*fresh, np.array([limits[-1]])).mean())
    assert np.mean(risks) <= 0.1 + 0.003
    assert np.mean(risks) >= 0.08


def test_all_labels_share_a_limit_that_is_met():
    p, truth = draw(np.random.default_rng(1), 500)
    fitted = MissedLabelLimit(alpha=0.2).fit(p, truth)
    assert fitted.limits.shape == (6,)
    assert len(set(fitted.limits)) == 1
    assert (truth & ~fitted.of(p)).sum(axis=1).mean() < 1
    assert fitted.promise.statement == (
        "at most 20% of the labels that hold are not predicted, on average, as long as later traffic is drawn like the"
        " calibration data"
    )
    assert fitted.promise.n == 500
    assert LIMITS[0] == 1
    assert LIMITS[-1] == 0


def test_too_few_rows_are_refused_with_the_number_that_would_do():
    p, truth = draw(np.random.default_rng(1), 8)
    with pytest.raises(InvalidInput, match=r"8 rows are too few .* 9 would do"):
        MissedLabelLimit(alpha=0.1).fit(p, truth)
    MissedLabelLimit(alpha=0.1).fit(*draw(np.random.default_rng(1), 9))


@pytest.mark.parametrize("alpha", [0, 1, -0.1, float("nan"), "a"])
def test_alpha_is_a_share(alpha):
    with pytest.raises(InvalidInput):
        MissedLabelLimit(alpha=alpha)
