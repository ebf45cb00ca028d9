import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.risk_control import conformal_risk_control

SETTINGS = np.arange(21) / 20


def document_losses(rng, n):
    """Each document has a difficulty; its loss falls linearly and is 0 from there on."""
    difficulty = rng.random((n, 1))
    return np.maximum(difficulty - SETTINGS, 0)


@pytest.mark.parametrize(
    ("losses", "alpha", "setting", "feasible"),
    [
        ([[1, 0]], 0.5, 1, True),  # (0 + 1) / 2 is the target itself
        ([[1, 0]], 0.4999, 1, False),
        ([[0, 0]], 0.5, 0, True),
        ([[0.1, 0], [0.2, 0], [0.6, 0]], 0.475, 0, True),  # 1.9 / 4, up to rounding
        ([[0, 0]], 0.0, 1, False),  # one further row could always lose
    ],
)
def test_the_smallest_setting(losses, alpha, setting, feasible):
    found = conformal_risk_control(losses, [0, 1], alpha)
    assert (found.setting, found.index, found.feasible) == (setting, setting, feasible)


@settings(deadline=None)
@given(st.integers(1, 40), st.floats(0, 2), st.integers(0, 2**32 - 1))
def test_losses_may_have_any_scale(n, alpha, seed):
    losses = document_losses(np.random.default_rng(seed), n)
    found = conformal_risk_control(2 * losses, SETTINGS, alpha, upper=2)
    same = conformal_risk_control(losses, SETTINGS, alpha / 2)
    assert (found.index, found.feasible) == (same.index, same.feasible)


@pytest.mark.parametrize(
    "change",
    [
        {"losses": [[0.5, 0.6]]},  # rises
        {"losses": [[1.5, 0.5]]},
        {"losses": [[0.5, -0.5]]},
        {"losses": []},
        {"losses": [[0.5]]},
        {"lambdas": [1, 0]},
        {"alpha": -0.1},
        {"alpha": 1.5},
        {"alpha": float("nan")},
        {"upper": 0},
        {"upper": "1"},
    ],
)
def test_bad_input(change):
    good = {"losses": [[0.5, 0.0]], "lambdas": [0, 1], "alpha": 0.2}
    with pytest.raises(ValueError, match=next(iter(change))):
        conformal_risk_control(**{**good, **change})


def test_the_promise_holds():
    """At setting s the expected loss is (1 - s)^2 / 2; on average over draws it stays within the target."""
    rng = np.random.default_rng(0)
    found = [conformal_risk_control(document_losses(rng, 30), SETTINGS, 0.1) for _ in range(2000)]
    assert all(one.feasible for one in found)
    risks = np.array([(1 - one.setting) ** 2 / 2 for one in found])
    assert risks.mean() <= 0.1 + 3 * risks.std() / np.sqrt(2000)
    assert risks.max() > 0.1  # a single draw may be worse: that is all it promises
