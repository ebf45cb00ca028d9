import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.correctness import QUALITIES, exact_match, jaccard_similarity

ROW = st.lists(st.booleans(), min_size=4, max_size=4)


@pytest.mark.parametrize(
    ("predicted", "truth", "exact", "jaccard"),
    [
        ([0, 0, 0], [0, 0, 0], 1, 1),  # "nothing applies" was right
        ([0, 0, 0], [0, 1, 0], 0, 0),
        ([1, 0, 0], [0, 0, 0], 0, 0),
        ([1, 1, 0], [1, 1, 0], 1, 1),
        ([1, 1, 0], [1, 0, 0], 0, 1 / 2),
        ([1, 1, 0], [1, 0, 1], 0, 1 / 3),
        ([1, 0, 0], [0, 1, 1], 0, 0),
    ],
)
def test_how_right_a_prediction_is(predicted, truth, exact, jaccard):
    rows = np.array([predicted], dtype=bool), np.array([truth], dtype=bool)
    assert exact_match(*rows).tolist() == [exact]
    assert jaccard_similarity(*rows).tolist() == [jaccard]


@settings(deadline=None)
@given(st.lists(st.tuples(ROW, ROW), min_size=1, max_size=6))
def test_a_share_is_1_exactly_where_the_match_is_exact(rows):
    predicted, truth = (np.array(side) for side in zip(*rows, strict=True))
    share = jaccard_similarity(predicted, truth)
    np.testing.assert_array_equal(share == 1, exact_match(predicted, truth) == 1)
    np.testing.assert_array_equal(share, jaccard_similarity(truth, predicted))
    for (p, t), value in zip(rows, share, strict=True):
        mine, right = ({i for i, held in enumerate(side) if held} for side in (p, t))
        assert value == (len(mine & right) / len(mine | right) if mine | right else 1)


def test_one_label_of_several_is_right_or_wrong_either_way():
    """Where labels exclude each other, both qualities are the same number."""
    predicted, truth = np.eye(3, dtype=bool)[[0, 1, 2, 0]], np.eye(3, dtype=bool)[[0, 1, 0, 2]]
    for quality in QUALITIES.values():
        assert quality(predicted, truth).tolist() == [1, 1, 0, 0]
