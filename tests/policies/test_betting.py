"""Bounds by betting (METHODS 10.11)."""

from itertools import product

import numpy as np
import pytest

from demur.policies.betting import betting_p_value, betting_upper_bound, ltt_betting
from demur.policies.risk_bound import binomial_upper_bound


def test_averaged_over_all_rows_of_one_mean_the_capital_stays_1():
    """So that 1 over the largest capital is a p-value: checked by the share of rows with a small one."""
    mean, n = 0.3, 12
    reached = 0.0
    for rows in product((0.0, 1.0), repeat=n):
        chance = mean ** sum(rows) * (1 - mean) ** (n - sum(rows))
        reached += chance * (betting_p_value(rows, mean, 0.2) <= 0.2)
    assert 0 < reached <= 0.2


def test_the_bound_is_seldom_below_the_mean_and_shorter_where_losses_vary_little():
    rng = np.random.default_rng(0)
    losses = rng.beta(0.4, 3.6, (300, 100))
    bounds = np.array([betting_upper_bound(x, 0.1) for x in losses])
    assert (bounds < 0.1).mean() <= 0.1
    assert bounds.mean() < 0.1 + np.sqrt(np.log(10) / 200) - 0.05  # Hoeffding's is .207
    wrong = (rng.random((100, 100)) < 0.1).astype(float)
    exact = np.mean([binomial_upper_bound(int(x.sum()), 100, 0.1) for x in wrong])
    assert exact < np.mean([betting_upper_bound(x, 0.1) for x in wrong])


def test_the_bound_and_the_p_value_agree():
    x = np.random.default_rng(1).random(60) * 0.5
    bound = betting_upper_bound(x, 0.05)
    assert betting_p_value(x, bound + 1e-9, 0.05) <= 0.05 < betting_p_value(x, bound - 1e-6, 0.05)


def test_a_limit_at_the_target_is_seldom_let_through():
    """Risk exactly at the target at the only limit, in traffic of which some rows stand for four."""
    rng = np.random.default_rng(2)
    passed = 0
    for _ in range(200):
        weights = rng.choice([1.0, 4.0], 200)
        losses = (rng.random(200) < 0.2).astype(float)
        found = ltt_betting(np.zeros(200), losses, [0.5], 0.2, 0.1, weights=weights, max_weight=4)
        passed += bool(found.rejected)
    assert passed <= 0.14 * 200


@pytest.mark.parametrize("rows", [[0.0], [1.0, 1.0], [0.5]])
def test_so_few_rows_show_nothing(rows):
    assert betting_upper_bound(rows) == 1.0
