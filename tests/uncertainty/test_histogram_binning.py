import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.histogram_binning import HistogramBinning, fit_histogram


def uniform_by_hand(probs, targets, queries, bins):
    def bin_of(p):
        return max(m for m in range(bins) if p >= m / bins)

    def value(m):
        inside = [y for p, y in zip(probs, targets, strict=True) if bin_of(p) == m]
        return sum(inside) / len(inside) if inside else (m + 0.5) / bins

    return [value(bin_of(q)) for q in queries]


def quantile_by_hand(probs, targets, queries, bins):
    n = len(probs)
    ranked = sorted(zip(probs, targets, strict=True), key=lambda pair: pair[0])
    starts = [m * n // bins for m in range(bins)]
    members = {}
    for p, y in ranked:
        first = next(i for i, (other, _) in enumerate(ranked) if other == p)  # where its tie group starts
        members.setdefault(max(m for m in range(bins) if starts[m] <= first), []).append((p, y))
    filled = [members[m] for m in sorted(members)]

    def value(q):
        inside = next((b for b in filled if max(p for p, _ in b) >= q), filled[-1])
        return sum(y for _, y in inside) / len(inside)

    return [value(q) for q in queries]


@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_both_strategies_are_their_definitions(seed):
    rng = np.random.default_rng(seed)
    n, bins = int(rng.integers(1, 20)), int(rng.integers(1, 25))  # often fewer rows than bins
    steps = int(rng.choice([3, 10, 20, 1000]))  # ties, and scores on the ends of bins
    probs = rng.integers(0, steps + 1, size=n) / steps
    targets = rng.integers(2, size=n)
    queries = np.concatenate([probs, rng.random(5), [0, 1], np.arange(bins) / bins])
    given = probs.tolist(), targets.tolist(), queries.tolist(), bins
    np.testing.assert_allclose(
        fit_histogram(probs, targets, n_bins=bins).confidence(queries), uniform_by_hand(*given), atol=1e-14
    )
    np.testing.assert_allclose(
        fit_histogram(probs, targets, n_bins=bins, strategy="quantile").confidence(queries),
        quantile_by_hand(*given),
        atol=1e-14,
    )


@pytest.mark.parametrize("p", [0.3, 0.6, 0.7])
def test_a_score_on_an_end_belongs_to_the_bin_above(p):
    """numpy.linspace would put these ends one unit in the last place higher."""
    assert fit_histogram([p], [1]).confidence(np.array([p]))[0] == 1


def test_a_tie_group_is_not_split_though_it_is_longer_than_a_bin():
    fitted = fit_histogram([0.1, 0.5, 0.5, 0.5, 0.5, 0.9], [0, 1, 0, 1, 1, 1], n_bins=3, strategy="quantile")
    np.testing.assert_allclose(fitted.confidence(np.array([0.0, 0.1, 0.3, 0.5, 0.6, 1.0])), [0.6] * 4 + [1, 1])


def test_what_is_unknown_stays_unknown():
    for strategy in ("uniform", "quantile"):
        fitted = HistogramBinning(n_bins=3, strategy=strategy).fit(np.array([0.1, 0.9]), np.array([0.0, 1.0]))
        np.testing.assert_array_equal(fitted.confidence(np.array([math.nan, 0.1, 0.9])), [math.nan, 0, 1])


@pytest.mark.parametrize(
    ("probs", "targets"),
    [([], []), ([0.5], [0, 1]), ([1.5], [1]), ([math.nan], [1]), ([0.5], [0.5]), ([[0.5]], [1]), (["a"], [1])],
)
def test_bad_data_is_refused(probs, targets):
    for strategy in ("uniform", "quantile"):
        with pytest.raises(InvalidInput):
            fit_histogram(probs, targets, strategy=strategy)


@pytest.mark.parametrize(
    "settings",
    [{"n_bins": 0}, {"n_bins": 2.0}, {"n_bins": True}, {"n_bins": None}, {"strategy": "mass"}, {"strategy": None}],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InvalidInput):
        fit_histogram([0.5], [1], **settings)
    with pytest.raises(InvalidInput):
        HistogramBinning(**settings)
