"""Two isotonic fits for each row (METHODS 10.2)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.venn_abers import fit_venn_abers


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
