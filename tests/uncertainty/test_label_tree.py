import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.hierarchy import ancestors, up_propagate_labels, up_propagate_probs
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.label_tree import BLOCK, LabelTree

WIDTH = 12
PARENTS = st.dictionaries(st.integers(1, WIDTH - 1), st.lists(st.integers(0, WIDTH - 1), max_size=3)).map(
    lambda drawn: {child: [parent for parent in above if parent != child] for child, above in drawn.items()}
)


def tree_of(parents, width=WIDTH):
    links = np.array([(child, parent) for child, above in parents.items() for parent in above]).reshape(-1, 2)
    return LabelTree(width=width, children=links[:, 0].astype(float), parents=links[:, 1].astype(float))


def goes_round(parents):
    try:
        ancestors(parents)
    except InvalidInput:
        return True
    return False


@pytest.mark.slow
@settings(deadline=None)
@given(PARENTS, st.integers(0, 10**6))
def test_values_rise_as_in_the_definition(parents, seed):
    if goes_round(parents):
        with pytest.raises(InvalidInput, match="circle"):
            tree_of(parents)
        return
    tree = tree_of(parents)
    rng = np.random.default_rng(seed)
    p = rng.random((2 * BLOCK + 3, WIDTH))
    told = p > 0.8
    closed, held = tree.closed(p), tree.closed(told)
    for row in range(len(p)):
        risen = up_propagate_probs(dict(enumerate(p[row])), parents)
        assert closed[row].tolist() == [risen[label] for label in range(WIDTH)]
        assert np.flatnonzero(held[row]).tolist() == up_propagate_labels(np.flatnonzero(told[row]).tolist(), parents)
    assert held.dtype == bool
    np.testing.assert_array_equal(tree.closed(closed), closed)
    np.testing.assert_array_equal(tree.closed(p[0]), closed[0])
    np.testing.assert_array_equal(tree.closed(p.reshape(5, 7, WIDTH)), closed.reshape(5, 7, WIDTH))


DIAMOND = tree_of({3: [1, 2], 1: [0], 2: [0]}, width=5)


def test_what_is_given_stays_as_it_is():
    p = np.array([[0.1, 0.2, 0.3, 0.4, 0.5]])
    assert DIAMOND.closed(p).tolist() == [[0.4, 0.4, 0.4, 0.4, 0.5]]
    assert p.tolist() == [[0.1, 0.2, 0.3, 0.4, 0.5]]


def test_what_is_unknown_below_is_unknown_above():
    assert np.isnan(DIAMOND.closed(np.array([0.9, 0.9, 0.9, np.nan, 0.9]))).tolist() == [True] * 4 + [False]


def test_shape_of_the_tree():
    assert (DIAMOND.roots, DIAMOND.depth) == (2, 3)
    alone = tree_of({}, width=3)
    assert (alone.roots, alone.depth) == (3, 1)
    assert alone.closed(np.eye(3)).tolist() == np.eye(3).tolist()


def test_the_name_of_a_tree_is_that_of_its_links():
    assert DIAMOND.sha256 == tree_of({2: [0], 1: [0, 0], 3: [2, 1]}, width=5).sha256
    others = [tree_of({3: [1, 2], 1: [0]}, width=5), tree_of({3: [1, 2], 1: [0], 2: [0]}, width=6)]
    assert len({DIAMOND.sha256, *(other.sha256 for other in others)}) == 3


def test_a_label_without_an_output_is_as_probable_as_the_most_probable_below_it():
    tree = tree_of({0: [2], 1: [2], 2: [3]}, width=4)  # the model knows 0 and 1 alone
    logits = np.array([[-1.0, 2.0], [np.nan, 0.0]])
    assert tree.over_outputs(logits)[0].tolist() == [-1, 2, 2, 2]
    assert np.isnan(tree.over_outputs(logits)[1]).tolist() == [True, False, True, True]
    assert tree.over_outputs(np.zeros((2, 7, 2))).shape == (2, 7, 4)
    with pytest.raises(InvalidInput, match="4 labels"):
        tree.over_outputs(np.zeros((2, 5)))


def test_many_labels_are_closed_without_anything_as_large_as_their_square():
    rng = np.random.default_rng(0)
    width = 10_000
    upper = np.array([int(rng.integers(0, child)) for child in range(1, width)])
    tree = LabelTree(width=width, children=np.arange(1.0, width), parents=upper.astype(float))
    p = rng.random((3, width))
    slow = p.copy()
    for child in range(width - 1, 0, -1):
        slow[:, upper[child - 1]] = np.maximum(slow[:, upper[child - 1]], slow[:, child])
    np.testing.assert_array_equal(tree.closed(p), slow)


def test_a_long_chain():
    tree = tree_of({label: [label - 1] for label in range(1, 500)}, width=500)
    assert tree.depth == 500
    assert tree.closed(np.arange(500) == 499).all()


@pytest.mark.parametrize(("children", "parents"), [([0.0], [5.0]), ([-1.0], [0.0]), ([0.5], [1.0]), ([np.nan], [0.0])])
def test_links_are_between_labels(children, parents):
    with pytest.raises(InvalidInput, match="not between two of its 5 labels"):
        LabelTree(width=5, children=np.array(children), parents=np.array(parents))


@pytest.mark.parametrize("shape", [(), (4,), (2, 6)])
def test_values_of_other_labels_are_refused(shape):
    with pytest.raises(InvalidInput, match="5 labels"):
        DIAMOND.closed(np.zeros(shape))
