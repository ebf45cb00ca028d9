"""A limit of either direction: which values keep within it, and what is said of each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.policies.limit import UNKNOWN, Limit

CONFIDENCE = Limit(of="confidence", bound=0.8, meaning="the limit", least=True)
SCORE = Limit(of="entropy", bound=0.8, meaning="the limit", least=False)
NOTHING = Limit(of="confidence", bound=np.inf, meaning="too few labels", least=True)


@pytest.mark.parametrize(
    ("limit", "value", "keeps", "reason"),
    [
        (CONFIDENCE, 0.79, False, "confidence 0.79 is below 0.80, the limit"),
        (CONFIDENCE, 0.8, True, "confidence 0.80 is at or above 0.80, the limit"),
        (CONFIDENCE, 0.7999, False, "confidence 0.7999 is below 0.8000, the limit"),
        (CONFIDENCE, np.nan, False, UNKNOWN),
        (SCORE, 0.79, True, "entropy 0.79 is at or below 0.80, the limit"),
        (SCORE, 0.8, True, "entropy 0.80 is at or below 0.80, the limit"),
        (SCORE, 0.81, False, "entropy 0.81 is above 0.80, the limit"),
        (SCORE, np.nan, False, "entropy is undefined, and what is unknown is held"),
        (NOTHING, 1.0, False, "no confidence is enough: too few labels"),
    ],
)
def test_the_limit_itself_keeps_within_and_the_unknown_never_does(limit, value, keeps, reason):
    assert limit.keeps(np.array([value])).tolist() == [keeps]
    assert limit.reason(value) == reason


@given(
    values=st.lists(st.floats() | st.sampled_from([0.5, 0.501, 0.4999, 0.505, 0.495])),
    bound=st.floats(allow_nan=False) | st.sampled_from([0.5, 0.499, -0.0]),
    least=st.booleans(),
)
def test_many_values_are_told_as_each_of_them(values, bound, least):
    limit = Limit(of="confidence", bound=bound, meaning="the limit", least=least)
    assert limit.reasons(np.array(values, dtype=np.float64)) == [limit.reason(value) for value in values]
