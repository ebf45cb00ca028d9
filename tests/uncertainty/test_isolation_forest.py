import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import IsolationForest as Reference

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.isolation_forest import IsolationForest, fit_isolation_forest, isolation_c, trees_from
from demur.uncertainty.output import LabelledOutput, Output


def c_by_hand(n):
    if n > 2:
        return 2 * (math.log(n - 1) + 0.5772156649015329) - 2 * (n - 1) / n
    return 1.0 if n == 2 else 0.0


def by_hand(trees, subsample_size, row):
    def path(node, depth):
        if "size" in node:
            return depth + c_by_hand(node["size"])
        return path(node["left" if row[node["feature"]] <= node["threshold"] else "right"], depth + 1)

    return 2 ** (-(sum(path(tree, 0) for tree in trees) / len(trees)) / c_by_hand(subsample_size))


def grown(rng, features, depth):
    if depth == 0 or rng.random() < 0.3:
        return {"size": int(rng.integers(0, 9))}
    return {
        "feature": int(rng.integers(features)),
        "threshold": float(rng.integers(-2, 3)),
        "left": grown(rng, features, depth - 1),
        "right": grown(rng, features, depth - 1),
    }


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 255, 256, 10**6])
def test_mean_search_depth(n):
    assert isolation_c(n) == pytest.approx(c_by_hand(n), abs=1e-12)


@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_given_trees_score_by_the_definition(seed):
    rng = np.random.default_rng(seed)
    features, psi = int(rng.integers(1, 4)), int(rng.integers(2, 40))
    trees = [grown(rng, features, depth=int(rng.integers(0, 6))) for _ in range(rng.integers(1, 5))]
    rows = rng.integers(-3, 4, size=(7, features)).astype(float)  # many of them on a threshold
    scores = trees_from(trees, psi).score(rows)
    np.testing.assert_allclose(scores, [by_hand(trees, psi, row) for row in rows.tolist()], rtol=1e-12)
    assert ((scores > 0) & (scores <= 1)).all()


def test_a_tree_that_is_one_leaf():
    np.testing.assert_allclose(trees_from([{"size": 8}], 8).score([[0.0], [9.0]]), 0.5)  # all alike: 2 ** -1
    np.testing.assert_array_equal(trees_from([{"size": 1}], 2).score([[0.0]]), 1)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (50, 3), (400, 6)])
def test_fitted_trees_score_as_those_of_the_library(n, d):
    rng = np.random.default_rng(n)
    # numbers that a float32 holds, in which the library compares
    train, queries = (rng.normal(size=shape).astype(np.float32).astype(float) for shape in ((n, d), (60, d)))
    reference = Reference(n_estimators=25, max_samples=min(256, n), random_state=4).fit(train)
    fitted = fit_isolation_forest(train, trees=25, seed=4)
    assert fitted.subsample_size == min(256, n)
    np.testing.assert_allclose(fitted.score(queries), -reference.score_samples(queries), rtol=1e-6)


def test_features_of_one_value_cannot_be_cut():
    np.testing.assert_allclose(fit_isolation_forest(np.ones((9, 2)), trees=3).score([[1, 1], [7, 7]]), 0.5)


def test_the_same_seed_grows_the_same_trees_and_a_stranger_is_found():
    rng = np.random.default_rng(0)
    output = Output.from_logits(np.zeros((200, 2)), embedding=rng.normal(size=(200, 4)))
    rows = LabelledOutput.of_classes(output, np.arange(200) % 2)
    fits = [IsolationForest(trees=20, seed=1).fit(rows, np.ones(200)) for _ in range(2)]
    np.testing.assert_array_equal(fits[0].of(output), fits[1].of(output))
    assert fits[0].score(np.full((1, 4), 9.0))[0] > fits[0].of(output).max()


LEAF = {"size": 1}


@pytest.mark.parametrize(
    ("trees", "subsample_size", "features"),
    [
        ([], 2, [[0.0]]),
        (None, 2, [[0.0]]),
        ("tree", 2, [[0.0]]),
        (LEAF, 2, [[0.0]]),  # a tree, not a list of them
        ([None], 2, [[0.0]]),
        ([{}], 2, [[0.0]]),
        ([{"feature": 0, "threshold": 0.0, "left": LEAF}], 2, [[0.0]]),
        ([{"feature": 0, "threshold": math.nan, "left": LEAF, "right": LEAF}], 2, [[0.0]]),
        ([{"feature": 0, "threshold": "0", "left": LEAF, "right": LEAF}], 2, [[0.0]]),
        ([{"feature": 0.0, "threshold": 0.0, "left": LEAF, "right": LEAF}], 2, [[0.0]]),
        ([{"feature": -1, "threshold": 0.0, "left": LEAF, "right": LEAF}], 2, [[0.0]]),
        ([{"feature": 1, "threshold": 0.0, "left": LEAF, "right": LEAF}], 2, [[0.0]]),  # there is one feature
        ([{"feature": 0, "threshold": 0.0, "left": LEAF, "right": None}], 2, [[0.0]]),
        ([{"size": -1}], 2, [[0.0]]),
        ([{"size": 1.0}], 2, [[0.0]]),
        ([LEAF], 1, [[0.0]]),
        ([LEAF], 2.0, [[0.0]]),
        ([LEAF], None, [[0.0]]),
        ([LEAF], 2, [[math.inf]]),
        ([LEAF], 2, []),
        ([LEAF], 2, [0.0]),
    ],
)
def test_bad_trees_are_refused(trees, subsample_size, features):
    with pytest.raises(InvalidInput):
        trees_from(trees, subsample_size).score(features)


@pytest.mark.parametrize("n", [-1, 2.0, True, None, "3", math.nan])
def test_the_depth_is_that_of_a_whole_number(n):
    with pytest.raises(InvalidInput):
        isolation_c(n)


@pytest.mark.parametrize("features", [[[1.0]], [], [[math.nan], [1.0]], [1.0, 2.0]])
def test_too_little_to_grow_on_is_refused(features):
    with pytest.raises(InvalidInput):
        fit_isolation_forest(features)


@pytest.mark.parametrize("settings", [{"trees": 0}, {"trees": 1.5}, {"subsample_size": 1}, {"seed": -1}, {"seed": "a"}])
def test_settings_are_checked_before_there_is_data(settings):
    with pytest.raises(InvalidInput):
        IsolationForest(**settings)
