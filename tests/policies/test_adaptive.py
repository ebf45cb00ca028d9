import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.adaptive import adaptive_alphas, ipw_adaptive_alphas, run_adaptive
from demur.policies.conformal import conformal_quantile
from demur.uncertainty.checks import InvalidInput

SCORES = st.lists(st.integers(0, 10).map(float), min_size=1, max_size=30)


def test_without_outcomes_the_level_stays():
    assert adaptive_alphas(0.1, 0.005, []) == [0.1]
    assert adaptive_alphas(0.1, 0.005, np.array([])) == [0.1]


@settings(deadline=None)
@given(SCORES, SCORES, st.none() | st.integers(1, 12), st.sampled_from([0.05, 0.3, 1.0]))
def test_each_quantile_is_the_conformal_one_of_what_was_seen(before, coming, window, gamma):
    run = run_adaptive(0.2, gamma, before, coming, window=window)
    assert run.alphas == adaptive_alphas(0.2, gamma, run.errors)
    for t, (level, quantile) in enumerate(zip(run.alphas, run.quantiles, strict=False)):
        seen = (before + coming[:t])[-window if window else 0 :]
        if level <= 0:
            assert quantile == np.inf
        elif level >= 1:
            assert quantile == -np.inf
        else:
            assert quantile == conformal_quantile(seen, level)
        assert run.errors[t] == (coming[t] > quantile)


@settings(deadline=None)
@given(SCORES, SCORES, st.sampled_from([0.05, 0.3, 2.0]))
def test_the_share_of_misses_comes_close_whatever_the_traffic_does(before, coming, gamma):
    run = run_adaptive(0.2, gamma, before, coming)
    assert abs(np.mean(run.errors) - 0.2) <= (max(0.2, 0.8) + gamma) / (gamma * len(coming)) + 1e-9


def test_a_level_of_1_in_all_but_rounding_leaves_the_set_empty():
    run = run_adaptive(0.5, 0.2, [1.0] * 9, [1.0] * 6)  # 0.5 and five times 0.1 is 0.9999999999999999
    assert 0 < 1 - run.alphas[5] < 1e-12
    assert run.quantiles == [1.0] * 5 + [-np.inf]
    assert run.errors == [0] * 5 + [1]


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"alpha": "0.1"},
        {"gamma": 0.0},
        {"gamma": -0.1},
        {"gamma": float("inf")},
        {"calibration_scores": []},
        {"true_scores": []},
        {"true_scores": [float("nan")]},
        {"window": 0},
        {"window": 2.0},
    ],
)
def test_bad_input(change):
    good = {"alpha": 0.1, "gamma": 0.005, "calibration_scores": [0.1], "true_scores": [0.1]}
    with pytest.raises(InvalidInput):
        run_adaptive(**{**good, **change})


@pytest.mark.parametrize("errs", [[0, 2], [0.5], None, [[0, 1]], [float("nan")]])
def test_outcomes_are_0_or_1(errs):
    with pytest.raises(InvalidInput):
        adaptive_alphas(0.1, 0.005, errs)


@settings(deadline=None)
@given(st.floats(0.01, 0.99), st.floats(0.001, 5), st.lists(st.integers(0, 1), max_size=50))
def test_with_weights_of_one_the_levels_are_those_without(alpha, gamma, errs):
    assert ipw_adaptive_alphas(alpha, gamma, errs, [1] * len(errs)) == adaptive_alphas(alpha, gamma, errs)


@settings(deadline=None)
@given(
    st.floats(0.01, 0.99),
    st.sampled_from([0.005, 0.1, 2.0]),
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0, 0, 1, 4, 50])), min_size=1, max_size=200),
)
def test_the_level_stays_in_its_range_whatever_is_drawn(alpha, gamma, steps):
    errs, weights, level = [], [], alpha
    for err, weight in steps:
        miss = 0 if level <= 0 else 1 if level >= 1 else err  # a full set misses nothing, an empty one everything
        errs.append(miss if weight else None)
        weights.append(weight)
        level = ipw_adaptive_alphas(alpha, gamma, errs, weights)[-1] if weight else level
    levels, most = ipw_adaptive_alphas(alpha, gamma, errs, weights), 50
    assert len(levels) == len(steps) + 1
    assert all(a == b for a, b, w in zip(levels, levels[1:], weights, strict=False) if w == 0)
    assert min(levels) >= -gamma * (1 - alpha) * most - 1e-9
    assert max(levels) <= 1 + gamma * alpha * most + 1e-9
    mean = sum(w * (err - alpha) for err, w in zip(errs, weights, strict=True) if w) / len(steps)
    assert abs(mean) <= (1 + gamma * most) / (gamma * len(steps)) + 1e-9


@pytest.mark.parametrize(
    ("errs", "weights"),
    [
        ([None], [1]),
        ([2], [1]),
        ([0.5], [1]),
        ([1], [1, 1]),
        ([1], [-1]),
        ([1], [float("nan")]),
        (None, [1]),
        ("1", [1]),
    ],
)
def test_what_an_outcome_with_a_weight_cannot_be(errs, weights):
    with pytest.raises(InvalidInput):
        ipw_adaptive_alphas(0.1, 0.1, errs, weights)
