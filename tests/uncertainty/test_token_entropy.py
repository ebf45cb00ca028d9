import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.token_entropy import token_entropy, token_entropy_sequence

HALF, QUARTER, INF = math.log(0.5), math.log(0.25), math.inf


@pytest.mark.parametrize(
    ("residual", "token", "entropy"),
    [
        ("outcome", [HALF, QUARTER], 1.5 * math.log(2)),  # the last quarter is one outcome
        ("renormalize", [HALF, QUARTER], math.log(3) - 2 / 3 * math.log(2)),  # 2/3, 1/3
        ("ignore", [HALF, QUARTER], math.log(2)),
        ("outcome", [0.0], 0.0),
        ("outcome", [1e-6, -INF], 0.0),  # rounding above 0; a masked alternative
        ("outcome", [-INF, -INF], 0.0),  # all the mass is one outcome
        ("ignore", [-INF], 0.0),
        ("renormalize", [-INF], math.nan),  # nothing to divide
        ("renormalize", [-INF, -1000.0, -1000.0], math.log(2)),  # exp underflows
        ("outcome", [math.log(1.00005) + HALF, HALF], math.log(2)),  # sums to a little more than 1
    ],
)
def test_the_mass_that_is_left(residual, token, entropy):
    assert token_entropy([token], residual=residual) == pytest.approx([entropy], abs=1e-4, nan_ok=True)


@pytest.mark.parametrize("residual", ["outcome", "renormalize", "ignore"])
@pytest.mark.parametrize(
    "bad",
    [
        [],
        [[]],
        [[-1.0], []],
        [[-1.0, math.nan]],
        [[INF]],
        [[2e-6]],
        [[HALF, HALF, -8.0]],  # 1.0003
        [-1.0],
        [[[-1.0]]],
        [["x"]],
        [None],
        None,
        "abc",
    ],
)
def test_what_are_no_alternatives_is_refused(residual, bad):
    with pytest.raises(InvalidInput):
        token_entropy(bad, residual=residual)


def test_tokens_may_have_different_numbers_of_alternatives():
    np.testing.assert_allclose(token_entropy([[HALF], [HALF, QUARTER, QUARTER]]), [math.log(2), 1.5 * math.log(2)])


@pytest.mark.parametrize(("reduce", "value"), [("sum", 2.0), ("mean", 2 / 3), ("max", 1.0)])
def test_reduce(reduce, value):
    answer = [[HALF], [0.0], [HALF]]
    assert token_entropy_sequence(answer, reduce=reduce) == pytest.approx(value * math.log(2))
    assert math.isnan(token_entropy_sequence([*answer, [-INF]], residual="renormalize", reduce=reduce))


@pytest.mark.parametrize("option", [{"residual": "drop"}, {"reduce": "median"}, {"residual": None}])
def test_unknown_words_are_refused(option):
    with pytest.raises(InvalidInput):
        token_entropy_sequence([[HALF]], **option)


@settings(deadline=None)
@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=6), st.floats(0.1, 1))
def test_what_is_left_only_adds(weights, mass):
    token = [np.log(mass * np.array(weights) / sum(weights))]
    whole, shared = token_entropy(token)[0], token_entropy(token, residual="renormalize")[0]
    assert token_entropy(token, residual="ignore")[0] <= whole + 1e-12
    assert 0 <= shared <= math.log(len(weights)) + 1e-12
    # grouping property of entropy
    left = -mass * math.log(mass) - ((1 - mass) * math.log(1 - mass) if mass < 1 else 0)
    assert whole == pytest.approx(left + mass * shared, abs=1e-9)
