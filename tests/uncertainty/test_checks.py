import math
from decimal import Decimal

import numpy as np
import pytest

from demur.uncertainty import checks
from demur.uncertainty.checks import InvalidInput

NOT_NUMBERS = [None, "1", b"1", ["1"], [1, "1"], [None], [{}], {}, 1j, [1j], [[1], [1, 2]], object(), [], [math.nan]]


@pytest.mark.parametrize("bad", [*NOT_NUMBERS, np.array(["0.5"], dtype=object), np.array(["2020"], dtype="M8"), 1.0])
def test_what_is_no_list_of_numbers_is_refused(bad):
    for check in (checks.finite, checks.unit_interval, checks.outcomes):
        with pytest.raises(InvalidInput):
            check("x", bad)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, 10**400])
def test_what_is_too_large_is_refused(bad):
    with pytest.raises(InvalidInput):
        checks.finite("x", [1, bad])


@pytest.mark.parametrize("good", [[0, 1], [False, True], np.array([0, 1], dtype=np.int8), [Decimal(0), 1], (0.0, 1.0)])
def test_numbers_of_any_kind_become_floats(good):
    for check in (checks.finite, checks.unit_interval, checks.outcomes):
        array = check("x", good)
        assert array.dtype == np.float64
        assert array.tolist() == [0, 1]


@pytest.mark.parametrize("bad", [0.5, 2, -1])
def test_an_outcome_is_0_or_1(bad):
    with pytest.raises(InvalidInput, match="other than 0 and 1"):
        checks.outcomes("y", [0, bad])


@pytest.mark.parametrize(("row", "accepted"), [([0.5, 0.5 + 9e-7], True), ([0.5, 0.5 + 2e-6], False)])
def test_rows_sum_to_one_but_for_rounding(row, accepted):
    if accepted:
        np.testing.assert_array_equal(checks.probability_rows("probs", [row]), [row])  # not renormalised
    else:
        with pytest.raises(InvalidInput, match="sum to 1"):
            checks.probability_rows("probs", [row])


@pytest.mark.parametrize("bad", [-1e-9, 1 + 1e-9, math.nan, "0.5", None, True, [0.5], 1j])
def test_a_share_is_a_number_from_0_to_1(bad):
    with pytest.raises(InvalidInput):
        checks.fraction("share", bad)


@pytest.mark.parametrize(
    ("x", "floor", "ceiling"),
    [(0.07 * 100, 7, 7), (0.29 * 100, 29, 29), (7.1, 7, 8), (-0.5, -1, 0), (1e12 + 0.25, 10**12, 10**12)],
)
def test_products_snap_to_whole_numbers(x, floor, ceiling):
    assert (checks.snapped_floor(x), checks.snapped_ceil(x)) == (floor, ceiling)


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["b", "a", "b"], [0, 1, 0]),
        ([1, 1.0, True, None, (0,)], [0, 0, 0, 1, 2]),  # what is equal is one name
        (np.array([3, 3, 1]), [0, 0, 1]),
        ((), []),
    ],
)
def test_groups_are_numbered_as_they_come(names, groups):
    assert checks.memberships("groups", names).tolist() == groups


@pytest.mark.parametrize("bad", [None, 3, "ab", b"ab", {"a": 1}, [[1]], [{}], [math.nan], [1, np.nan]])
def test_what_names_no_groups_is_refused(bad):
    with pytest.raises(InvalidInput):
        checks.memberships("groups", bad)


def test_relative_weights_add_up_to_the_rows_that_would_tell_as_much():
    np.testing.assert_array_equal(checks.relative_weights(None, x=[1, 2, 3]), np.ones(3))
    np.testing.assert_array_equal(checks.relative_weights([0.1, 0.1, 0.1], x=[1, 2, 3]), np.ones(3))
    found = checks.relative_weights([1.0, 3.0], x=[1, 2])
    assert found[1] == pytest.approx(3 * found[0])
    assert found.sum() == pytest.approx(16 / 10)
    for bad in ([1.0, 0.0], [1.0, -1.0], [1.0], [1.0, math.nan]):
        with pytest.raises(InvalidInput):
            checks.relative_weights(bad, x=[1, 2])
