import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.hierarchy import (
    ancestors,
    imdrf_ancestors,
    imdrf_parents,
    tree_over,
    up_propagate_labels,
    up_propagate_probs,
)
from demur.uncertainty.checks import InvalidInput

DIAMOND = {"d": ["b", "c"], "b": ["a"], "c": ["a"], "x": []}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([], []),
        (["d"], ["a", "b", "c", "d"]),
        (["c", "c"], ["a", "c"]),
        (["a"], ["a"]),  # a root that appears only as a parent
        (["x", "unknown"], ["unknown", "x"]),
        (["unknown", "b"], ["a", "b", "unknown"]),
    ],
)
def test_labels_bring_their_ancestors(labels, expected):
    assert up_propagate_labels(labels, DIAMOND) == expected


@pytest.mark.parametrize(
    ("probs", "expected"),
    [
        ({}, {}),
        ({"d": 0.4, "b": 0.6, "c": 0.1}, {"d": 0.4, "b": 0.6, "c": 0.4, "a": 0.6}),
        ({"a": 0.9, "unknown": 0.2, "b": 0.0}, {"a": 0.9, "unknown": 0.2, "b": 0.0}),
        ({"b": 0}, {"b": 0.0, "a": 0.0}),
    ],
)
def test_probabilities_rise_to_the_ancestors(probs, expected):
    assert up_propagate_probs(probs, DIAMOND) == expected


@pytest.mark.parametrize(
    "parents",
    [
        {"a": ["a"]},
        {"a": ["b"], "b": ["a"]},
        {"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]},
    ],
)
def test_a_circle_is_refused_even_where_the_labels_are_elsewhere(parents):
    with pytest.raises(InvalidInput, match="circle"):
        up_propagate_labels(["z"], parents)
    with pytest.raises(InvalidInput, match="circle"):
        up_propagate_probs({"z": 0.5}, parents)


@pytest.mark.parametrize("bad", ["d", None, [["d"]], [1, "d"], {"d": 1}])
def test_labels_are_a_list(bad):
    with pytest.raises(InvalidInput):
        up_propagate_labels(bad, DIAMOND)


@pytest.mark.parametrize("parents", [None, [], {"a": "b"}, {"a": None}, {"a": [["b"]]}])
def test_parents_are_lists(parents):
    with pytest.raises(InvalidInput):
        ancestors(parents)


@pytest.mark.parametrize("probs", [None, ["a"], {"a": 1.1}, {"a": float("nan")}, {"a": None}, {"a": "1"}])
def test_probabilities_are_checked(probs):
    with pytest.raises(InvalidInput):
        up_propagate_probs(probs, DIAMOND)


NODES = st.integers(0, 12)
GRAPHS = st.dictionaries(st.integers(1, 12), st.lists(NODES, max_size=4)).map(
    lambda drawn: {node: [parent for parent in above if parent < node] for node, above in drawn.items()}
)


@settings(deadline=None)
@given(GRAPHS, st.dictionaries(NODES, st.floats(0, 1)), st.floats(0, 1))
def test_labels_above_a_limit_are_closed_after_probabilities_have_risen(parents, probs, limit):
    risen = up_propagate_probs(probs, parents)
    chosen = [label for label, p in risen.items() if p >= limit]
    assert sorted(chosen) == up_propagate_labels(chosen, parents)
    assert sorted(chosen) == up_propagate_labels([label for label, p in probs.items() if p >= limit], parents)
    assert up_propagate_probs(risen, parents) == risen


def test_a_long_chain_needs_no_deep_recursion():
    parents = {label: [label - 1] for label in range(1, 3000)}
    assert len(up_propagate_labels([2999], parents)) == 3000


@pytest.mark.parametrize(
    ("code", "above"),
    [("A04", []), ("A0405", ["A04"]), ("A040507", ["A04", "A0405"]), ("g01", [])],
)
def test_imdrf(code, above):
    assert imdrf_ancestors(code) == above


@pytest.mark.parametrize(
    "code", ["", "A", "A0", "A040", "A04050", "A04050709", "04", "AA04", "A04 ", "A04\n", "A٠٤", 4]
)
def test_what_is_no_imdrf_code(code):
    with pytest.raises(InvalidInput):
        imdrf_ancestors(code)


def test_codes_bring_the_links_above_them():
    assert imdrf_parents(["A040507", "A0405", "E24"]) == {"A040507": ["A0405"], "A0405": ["A04"]}


def test_what_lies_above_the_outputs_comes_behind_them():
    labels, tree = tree_over(["d", "x"], DIAMOND)
    assert labels == ("d", "x", "a", "b", "c")
    assert tree.closed(np.eye(5, dtype=bool)[0]).tolist() == [True, False, True, True, True]
    assert tree_over(["x"], {})[0] == ("x",)


@pytest.mark.parametrize(("parents", "why"), [({"y": ["x"]}, "nor above one: y"), ({"x": ["x"]}, "x - x")])
def test_a_tree_of_other_labels_is_refused(parents, why):
    with pytest.raises(InvalidInput, match=why):
        tree_over(["x"], parents)
