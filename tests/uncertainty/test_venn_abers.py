"""Two isotonic fits for each row (METHODS 10.2)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.venn_abers import VennAbers, VennAbersWidth, fit_venn_abers


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_it_is_what_two_isotonic_fits_say(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    scores = rng.integers(0, int(rng.integers(1, 20)) + 1, n) / 10
    targets = (rng.random(n) < rng.random()).astype(float)
    asked = np.append(rng.choice(scores, 3), rng.random(3) * 3 - 0.5)
    found = fit_venn_abers(scores, targets).interval(asked)
    for row, s in enumerate(asked):
        for added, got in ((0.0, found.p0), (1.0, found.p1)):
            whole = fit_isotonic(np.append(scores, s), np.append(targets, added))
            assert got[row] == pytest.approx(whole.confidence(np.array([s]))[0], abs=1e-12)
    assert (found.p0 < found.probability).all()
    assert (found.probability < found.p1).all()


def test_one_fitted_row():
    found = fit_venn_abers([0.4], [1]).interval([0.5])
    assert (found.p0[0], found.p1[0], found.probability[0]) == pytest.approx((0.5, 1.0, 2 / 3))


def test_an_unknown_score_has_an_unknown_confidence():
    fitted = fit_venn_abers([0.1, 0.5, 0.9], [0, 1, 1])
    found = fitted.confidence(np.array([np.nan, 0.9]))
    assert np.isnan(found[0])
    assert 0 < found[1] < 1


def test_a_hundred_thousand_rows_are_no_trouble():
    rng = np.random.default_rng(0)
    scores = rng.random(100_000)
    fitted = fit_venn_abers(scores, rng.random(100_000) < scores)
    middle = np.linspace(0.05, 0.95, 10)
    assert fitted.confidence(middle) == pytest.approx(middle, abs=0.05)


def test_rows_of_unequal_weight_are_refused_and_equal_ones_are_rows():
    evidence, target = np.array([0.1, 0.5, 0.9]), np.array([0.0, 1.0, 1.0])
    alike = VennAbers().fit(evidence, target, np.full(3, 4.0))
    np.testing.assert_array_equal(alike.low, fit_venn_abers(evidence, target).low)
    with pytest.raises(InvalidInput, match="stand for unequal numbers of records; choose isotonic"):
        VennAbers().fit(evidence, target, np.array([1.0, 1.0, 2.0]))


def test_the_width_of_a_score_is_larger_where_there_were_fewer_rows():
    u = np.append(np.linspace(0, 0.3, 200), np.linspace(0.8, 0.9, 3))
    right = (np.arange(203) % 4 > 0).astype(float)
    fitted = VennAbersWidth(score="u").fit({"u": np.append(u, np.nan)}, np.append(right, 1.0))
    dense, thin, unknown = fitted.of({"u": np.array([0.15, 0.85, np.nan])})
    assert dense < 0.2 < thin
    assert np.isnan(unknown)
    with pytest.raises(InvalidInput, match="no row has u"):
        VennAbersWidth(score="u").fit({"u": np.array([np.nan])}, np.ones(1))
