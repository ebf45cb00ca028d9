import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.hybrid import fit_hybrid


def rank(v, reference):
    return sum(d < v for d in reference) + sum(d == v for d in reference) / 2 + 1 / 2


def floor(x):
    return round(x) if abs(x - round(x)) <= 1e-9 * max(1, abs(x)) else math.floor(x)


def by_hand(epistemic, aleatoric, reference, *, alpha=0.2, variant="linear", delta_min=0.1, delta_max=0.9):
    """METHODS 1.3, word for word; `reference` is a list of pairs."""
    n = len(reference)
    strange, torn = [e for e, _ in reference], [a for _, a in reference]
    ordinary = [a for e, a in reference if rank(e, strange) <= floor(n * delta_min)]

    def mixed(e, a):
        if variant == "step" and rank(e, strange) <= floor(n * delta_min):
            return rank(a, torn) / n if rank(a, torn) > floor(n * delta_max) else rank(a, ordinary) / n
        return ((1 - alpha) * rank(e, strange) + alpha * rank(a, torn)) / n

    return [mixed(e, a) for e, a in zip(epistemic, aleatoric, strict=True)]


@pytest.mark.parametrize("variant", ["linear", "step"])
@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_it_is_the_definition(seed, variant):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    reference = rng.integers(0, 8, size=(n, 2)) / 8  # with ties
    queries = reference if seed % 2 else rng.integers(-1, 10, size=(6, 2)) / 8
    settings = {
        "alpha": float(rng.choice([0, 0.2, 0.5, 1])),
        "variant": variant,
        "delta_min": float(rng.choice([0, 0.07, 0.1, 0.29, 0.4, 1])),
        "delta_max": float(rng.choice([0, 0.57, 0.7, 0.9, 1])),
    }
    ranks = fit_hybrid(*reference.T, **settings)
    np.testing.assert_allclose(
        ranks.mix(*queries.T), by_hand(*queries.T.tolist(), reference.tolist(), **settings), rtol=1e-12
    )


def test_products_of_shares_snap_to_whole_ranks():
    """0.29 * 100 is below 29 in floats; the row of rank 29 is among the ordinary 29 nevertheless."""
    strange, torn = np.arange(100.0), np.arange(100.0)[::-1]
    ranks = fit_hybrid(strange, torn, variant="step", delta_min=0.29)
    assert len(ranks.ordinary_aleatoric) == 29
    assert ranks.mix([28.0], [torn[28]])[0] == 1 / 100  # the least torn of those


def test_nothing_ordinary_where_the_lowest_tie():
    ranks = fit_hybrid(np.ones(10), np.arange(10.0), variant="step")
    assert len(ranks.ordinary_aleatoric) == 0
    np.testing.assert_allclose(ranks.mix([0.0, 0.0], [3.0, 99.0]), [0.5 / 10, 10.5 / 10])


def test_mixed_ranks_of_the_reference_itself_lie_above_0_and_reach_1():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=200)
    mixed = fit_hybrid(scores, scores).mix(scores, scores)
    np.testing.assert_allclose(np.sort(mixed), np.arange(1, 201) / 200)


def test_a_row_is_mixed_alike_alone_and_in_company():
    rng = np.random.default_rng(1)
    ranks = fit_hybrid(rng.normal(size=30), rng.normal(size=30), variant="step")
    strange, torn = rng.normal(size=(2, 12))
    together = ranks.mix(strange, torn)
    for i in range(12):
        assert ranks.mix(strange[i : i + 1], torn[i : i + 1])[0] == together[i]


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": -0.1},
        {"alpha": 1.1},
        {"alpha": math.nan},
        {"alpha": "0.2"},
        {"alpha": None},
        {"alpha": True},
        {"variant": "cubic"},
        {"variant": None},
        {"delta_min": -0.1},
        {"delta_max": 1.5},
        {"delta_max": [0.9]},
    ],
)
def test_settings_outside_their_range_are_refused(settings):
    with pytest.raises(InvalidInput):
        fit_hybrid([1.0, 2.0], [1.0, 2.0], **settings)


@pytest.mark.parametrize(
    ("strange", "torn"), [([], []), ([1.0], [1.0, 2.0]), ([math.nan], [1.0]), ([1.0], [math.inf]), (1.0, 1.0)]
)
def test_scores_that_are_none_are_refused(strange, torn):
    with pytest.raises(InvalidInput):
        fit_hybrid(strange, torn)
    with pytest.raises(InvalidInput):
        fit_hybrid([1.0], [1.0]).mix(strange, torn)
