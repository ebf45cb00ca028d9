import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from demur.audit.metrics.comparison import decision_flips, mcnemar, paired_difference
from demur.uncertainty.checks import InvalidInput

BITS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("current", "shadow", "weights", "difference"),
    [
        ([1, 0], [0, 0], [1, 1], -0.5),
        ([1, 0], [0, 0], [3, 1], -0.75),
        ([1, None], [0, None], [2, 0], -1),
        ([0.5, "unread"], [0.75, math.nan], [1, 0], 0.25),  # what has no weight is never read
        ([None], [None], [0], math.nan),
        ([True], [False], [1], -1),
        ([1, 0], [0, 1], [1e-300, 1e-300], 0),
        ([1, 0], [0, 0], [1e308, 1e308], -0.5),
    ],
)
def test_paired_difference(current, shadow, weights, difference):
    assert paired_difference(current, shadow, weights) == pytest.approx(difference, nan_ok=True)


@pytest.mark.parametrize(
    ("current", "shadow", "weights"),
    [
        ([], [], []),
        ([1], [1, 0], [1]),
        ([1], [1], [-1]),
        ([1], [1], [math.nan]),
        ([1], [1], [math.inf]),
        ([None], [1], [1]),
        ([math.nan], [1], [1]),
        (["1"], [1], [1]),
        ([[1]], [[1]], [1]),
        (None, [1], [1]),
        (np.array(1.0), [1], [1]),
        ("1", [1], [1]),
        ([1], [1], None),
    ],
)
def test_paired_difference_refuses(current, shadow, weights):
    with pytest.raises(InvalidInput):
        paired_difference(current, shadow, weights)


@pytest.mark.parametrize(
    ("b", "c", "p"), [(0, 0, 1), (1, 0, 1), (5, 5, 1), (0, 5, 0.0625), (5, 0, 0.0625), (2, 6, 0.2890625), (0, 2000, 0)]
)
def test_mcnemar(b, c, p):
    current = [1] * b + [0] * c + [1, 0]
    shadow = [0] * b + [1] * c + [1, 0]
    found = mcnemar(current, shadow)
    assert (found.only_current, found.only_shadow) == (b, c)
    assert found.p_value == pytest.approx(p)


@settings(deadline=None)
@given(BITS)
def test_mcnemar_is_the_sign_test_and_symmetric(pairs):
    current, shadow = zip(*pairs, strict=True)
    found, turned = mcnemar(current, shadow), mcnemar(shadow, current)
    assert found.p_value == turned.p_value
    if found.only_current + found.only_shadow:
        assert found.p_value == pytest.approx(
            binomtest(found.only_current, found.only_current + found.only_shadow).pvalue
        )


@pytest.mark.parametrize(
    ("current", "shadow"),
    [([], []), ([1], [1, 0]), ([2], [1]), ([None], [1]), ([0.5], [1]), (["1"], [1]), (1, [1]), ([[1]], [[1]])],
)
def test_mcnemar_refuses(current, shadow):
    with pytest.raises(InvalidInput):
        mcnemar(current, shadow)


def test_flips_without_a_label_have_shares_and_no_risk():
    found = decision_flips(["answer", "review"], ["review", "review"], [None, None], [None, None], [0, 0])
    assert found.cells["answer_review"].n == 1
    assert found.cells["answer_review"].share == 0.5
    assert found.cells["answer_answer"].n == 0
    assert found.current.coverage == 0.5
    assert found.shadow.coverage == 0
    for risk in (found.current.risk, found.shadow.risk, found.cells["answer_review"].current_risk):
        assert math.isnan(risk)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.booleans()] * 4, st.integers(0, 3)), min_size=1, max_size=30), st.sampled_from([0.1, 7]))
def test_cells_add_up_and_a_common_factor_changes_nothing(rows, factor):
    a, b, right_a, right_b, weights = (list(column) for column in zip(*rows, strict=True))
    actions = [["answer" if yes else "review" for yes in column] for column in (a, b)]
    found = decision_flips(*actions, right_a, right_b, weights)
    scaled = decision_flips(*actions, right_a, right_b, [factor * w for w in weights])
    assert sum(cell.n for cell in found.cells.values()) == len(rows)
    assert sum(cell.share for cell in found.cells.values()) == pytest.approx(1)
    assert sum(cell.n_labelled for cell in found.cells.values()) == sum(w > 0 for w in weights)
    answered = found.cells["answer_answer"].share + found.cells["answer_review"].share
    assert found.current.coverage == pytest.approx(answered)
    for one, other in ((found.current, scaled.current), (found.shadow, scaled.shadow)):
        assert one.risk == pytest.approx(other.risk, nan_ok=True)
    w = [w for w, yes in zip(weights, a, strict=True) if yes]
    wrong = [not right for right, yes in zip(right_a, a, strict=True) if yes]
    risk = np.average(wrong, weights=w) if sum(w) else math.nan
    assert found.current.risk == pytest.approx(risk, nan_ok=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"current": ["hold"]},
        {"current": [True]},
        {"current": "answer"},
        {"current": ["answer", "answer"]},
        {"shadow": []},
        {"shadow": None},
        {"current_correct": [None]},
        {"shadow_correct": [0.5]},
        {"shadow_correct": [1, 1]},
        {"weights": [-0.1]},
        {"weights": ["1"]},
    ],
)
def test_flips_refuse(changes):
    good = {
        "current": ["answer"],
        "shadow": ["review"],
        "current_correct": [1],
        "shadow_correct": [0],
        "weights": [1],
    }
    decision_flips(**good)
    with pytest.raises(InvalidInput):
        decision_flips(**{**good, **changes})
