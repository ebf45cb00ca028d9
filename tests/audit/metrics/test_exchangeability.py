import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics import exchangeability as module
from demur.audit.metrics.exchangeability import conformal_p_values, exchangeability_martingale
from demur.uncertainty.checks import InvalidInput

SCORES = st.lists(st.integers(0, 5), min_size=1, max_size=20)


@settings(deadline=None)
@given(SCORES, SCORES, st.sampled_from([3, 1024]))
def test_p_values_count_the_reference_and_all_earlier_scores(reference, stream, block):
    uniforms = np.random.default_rng(0).random(len(stream))
    want = []
    for t, score in enumerate(stream):
        bag = reference + stream[: t + 1]
        larger, equal = sum(b > score for b in bag), sum(b == score for b in bag)
        want.append((larger + uniforms[t] * equal) / len(bag))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        np.testing.assert_allclose(conformal_p_values(reference, stream, uniforms), want, rtol=1e-12)


def test_a_shift_is_found_and_nothing_where_nothing_changed():
    rng, alarms, runs = np.random.default_rng(0), 0, 100
    for _ in range(runs):
        p = conformal_p_values(rng.normal(size=200), rng.normal(size=500), rng.random(500))
        alarms += exchangeability_martingale(p, delta=0.1).alarm_at is not None
    assert alarms <= runs * 0.1 + 3 * math.sqrt(runs * 0.1)
    p = conformal_p_values(rng.normal(size=500), rng.normal(1, size=500), rng.random(500))
    assert exchangeability_martingale(p).alarm_at < 200


def test_the_capital_is_fair_and_never_overflows():
    grid = (np.arange(1000) + 0.5) / 1000
    two = [np.exp(exchangeability_martingale([a, b], jump=0.3).log_martingale) for a in grid[::40] for b in grid[::40]]
    assert np.mean(two, axis=0) == pytest.approx([1, 1], abs=0.02)
    long = exchangeability_martingale(np.zeros(20_000))
    assert np.isfinite(long.log_martingale).all()
    assert long.log_martingale[-1] > 5_000
    assert exchangeability_martingale([0.5, 0.5]).alarm_at is None


@pytest.mark.parametrize(
    ("p_values", "options"),
    [([1.1], {}), ([], {}), ([math.nan], {}), ([0.5], {"jump": 0}), ([0.5], {"jump": 1.1}), ([0.5], {"delta": 0})],
)
def test_what_is_refused(p_values, options):
    with pytest.raises(InvalidInput):
        exchangeability_martingale(p_values, **options)


@pytest.mark.parametrize(
    "arguments", [([], [1], [0.5]), ([1], [1, 2], [0.5]), ([1], [1], [1.5]), ([1], [math.nan], [1])]
)
def test_scores_that_are_refused(arguments):
    with pytest.raises(InvalidInput):
        conformal_p_values(*arguments)
