import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.adaptive_sets import AdaptiveSets, CumulativeSets, cumulative_scores

ROWS = st.lists(
    st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any).map(lambda row: np.array(row) / sum(row)),
    min_size=1,
    max_size=8,
).map(np.array)


@pytest.mark.parametrize(
    ("row", "scores"),
    [
        ([0.5, 0.3, 0.2], [0.5, 0.8, 1.0]),
        ([0.2, 0.3, 0.5], [1.0, 0.8, 0.5]),
        ([0.25, 0.5, 0.25], [0.75, 0.5, 1.0]),  # of equals the first comes first
        ([0.0, 1.0, 0.0], [1.0, 1.0, 1.0]),
    ],
)
def test_a_score_is_the_sum_down_to_the_label_itself(row, scores):
    np.testing.assert_allclose(cumulative_scores(np.array([row]), 0, 0), [scores])


@pytest.mark.parametrize(
    ("qhat", "members"),
    [
        (0.5, [True, False, False]),
        (0.8, [True, True, False]),
        (0.4, [True, False, False]),  # a set has at least one
        (-np.inf, [True, False, False]),
        (np.inf, [True, True, True]),
    ],
)
def test_a_set_goes_down_to_the_quantile(qhat, members):
    sets = CumulativeSets(alpha=0.1, qhat=qhat, penalty=0.0, k_reg=0)
    assert sets.of(np.array([[0.5, 0.3, 0.2]])).tolist() == [members]


@given(ROWS, st.floats(0, 1.1), st.floats(0, 1), st.integers(0, 4))
def test_a_set_has_the_likeliest_labels_and_never_skips_one(rows, qhat, penalty, k_reg):
    members = CumulativeSets(alpha=0.1, qhat=qhat, penalty=penalty, k_reg=k_reg).of(rows)
    for row, inside in zip(rows, members, strict=True):
        assert inside.any()
        assert inside.all() or row[inside].min() >= row[~inside].max()


def test_the_quantile_is_that_of_the_right_labels():
    sets = AdaptiveSets(alpha=0.25).fit([[0.5, 0.3, 0.2]] * 3, [0, 1, 0])
    assert sets == CumulativeSets(alpha=0.25, qhat=0.8, penalty=0.0, k_reg=0, n=3)  # the third of 0.5, 0.5, 0.8
    assert (
        AdaptiveSets(alpha=0.2).fit([[0.5, 0.3, 0.2]] * 3, [0, 1, 0]).promise.endswith("(that takes 4 labelled rows)")
    )
