"""Ranks of sets that keep their promise in this fit (METHODS 10.5, identities 10.16)."""

import numpy as np
import pytest

from demur.audit.metrics.promise_tests import fit_spread
from demur.policies.risk_bound import binomial_upper_bound
from demur.policies.training_conditional import pac_quantile, pac_rank


@pytest.mark.parametrize(("n", "alpha", "delta"), [(22, 0.1, 0.1), (100, 0.1, 0.1), (500, 0.05, 0.01), (60, 0.3, 0.5)])
def test_the_rank_is_the_smallest_whose_bound_is_within_alpha(n, alpha, delta):
    found = pac_rank(n, alpha, delta)
    assert binomial_upper_bound(n - found.rank, n, delta) <= alpha * (1 + 1e-9)
    assert found.rank == 1 or binomial_upper_bound(n - found.rank + 1, n, delta) > alpha
    spread = fit_spread(n, alpha, delta, rank=found.rank)
    assert spread.upper == pytest.approx(binomial_upper_bound(n - found.rank, n, delta))


def test_at_least_22_rows_are_needed_for_a_tenth():
    assert pac_rank(22, 0.1).feasible
    assert not pac_rank(21, 0.1).feasible
    assert pac_quantile(np.arange(21), 0.1) == np.inf


def test_few_fits_miss_more_than_was_promised():
    rng = np.random.default_rng(0)
    limits = np.array([pac_quantile(rng.random(100), 0.1, 0.1) for _ in range(1000)])
    assert (1 - limits > 0.1).mean() <= 0.1  # 5.8% in theory
