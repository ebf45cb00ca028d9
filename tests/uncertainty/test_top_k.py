import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.top_k import (
    IsotonicMaps,
    PerLabel,
    crossfit_isotonic,
    fit_per_label,
    fit_top_k,
    in_calibrated_order,
    top_labels,
)


def pairs(rng, n=40, k=3):
    probs = -np.sort(-rng.integers(0, 21, size=(n, k)) / 20, axis=1)  # with ties
    return probs, (rng.random((n, k)) < probs**2).astype(float)


@pytest.mark.parametrize("interpolation", ["linear", "step"])
@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_joint_pools_all_pairs_and_separate_has_a_map_for_each_rank(seed, interpolation):
    rng = np.random.default_rng(seed)
    probs, hits = pairs(rng, k=1 + seed % 4)
    new = pairs(rng, n=9, k=probs.shape[1])[0]
    joint = fit_top_k(probs, hits, interpolation=interpolation).of(new)
    pool = fit_isotonic(probs.ravel(), hits.ravel(), interpolation=interpolation)
    separate = fit_top_k(probs, hits, mode="separate", interpolation=interpolation).of(new)
    for i, row in enumerate(new):
        for rank, p in enumerate(row):
            own = fit_isotonic(probs[:, rank], hits[:, rank], interpolation=interpolation)
            assert joint[i, rank] == pool.confidence(np.array([p]))[0]
            assert separate[i, rank] == own.confidence(np.array([p]))[0]


def test_fewer_ranks_than_fitted_are_calibrated_and_more_are_not():
    rng = np.random.default_rng(0)
    probs, hits = pairs(rng)
    for mode in ("joint", "separate"):
        fitted = fit_top_k(probs, hits, mode=mode)
        np.testing.assert_array_equal(fitted.of(probs[:, :2]), fitted.of(probs)[:, :2])
    wide = np.column_stack([probs, probs[:, -1]])
    with pytest.raises(InvalidInput, match="4 ranks are to be calibrated; 3 were fitted"):
        fit_top_k(probs, hits, mode="separate").of(wide)


@pytest.mark.parametrize("interpolation", ["linear", "step"])
def test_a_label_with_enough_of_both_has_its_own_map_and_the_others_share_one(interpolation):
    rng = np.random.default_rng(1)
    probabilities = rng.random((200, 4))
    truth = rng.random((200, 4)) < probabilities * [0.9, 0.5, 0.02, 0]
    truth[:, 3] = True  # never fails to hold
    fitted = fit_per_label(probabilities, truth, k=2, least=20, interpolation=interpolation)
    assert [fitted.maps[label] is not None for label in range(4)] == [True, True, False, False]
    top = top_labels(probabilities, 2)
    joint = fit_isotonic(
        [probabilities[i, j] for i in range(200) for j in top[i]],
        [truth[i, j] for i in range(200) for j in top[i]],
        interpolation=interpolation,
    )
    labels = top_labels(probabilities, 4)
    calibrated = fitted.of(np.take_along_axis(probabilities, labels, axis=1), labels)
    for i in range(0, 200, 17):
        for rank, label in enumerate(labels[i]):
            own = fit_isotonic(probabilities[:, label], truth[:, label], interpolation=interpolation)
            p = probabilities[i, [label]]
            assert calibrated[i, rank] == (own if label < 2 else joint).confidence(p)[0]


@settings(deadline=None)
@given(
    arrays(
        np.float64, array_shapes(min_dims=2, max_dims=2, max_side=60), elements=st.sampled_from([0.0, 0.25, 0.5, 1])
    ),
    st.integers(1, 60),
)
def test_top_labels_are_the_most_probable_and_of_equals_the_first(probabilities, k):
    k = min(k, probabilities.shape[1])
    wanted = [sorted(range(len(row)), key=lambda j, row=row: (-row[j], j))[:k] for row in probabilities.tolist()]
    assert top_labels(probabilities, k).tolist() == wanted


@pytest.mark.parametrize("k", [0, 4])
def test_no_more_labels_than_there_are(k):
    with pytest.raises(InvalidInput):
        top_labels(np.ones((2, 3)), k)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_a_joint_map_in_calibrated_order_keeps_precision_at_every_k(seed, k):
    rng = np.random.default_rng(seed)
    probs, hits = pairs(rng, n=15, k=k)
    calibrated = fit_top_k(probs, hits).of(probs)
    order = in_calibrated_order(calibrated)
    np.testing.assert_array_equal(order, np.arange(k) + np.zeros((15, 1)))  # nobody changes places
    for cut in range(1, k + 1):
        assert np.take_along_axis(hits, order, axis=1)[:, :cut].mean() == hits[:, :cut].mean()


def test_maps_for_each_rank_may_change_the_order():
    separate = fit_top_k([[0.9, 0.5], [0.8, 0.4]], [[0, 1], [0, 1]], mode="separate")
    assert in_calibrated_order(separate.of(np.array([[0.9, 0.5]]))).tolist() == [[1, 0]]


@pytest.mark.parametrize("names", [[0, 1, 2], ["a", "b", "c"], ["test", None, ("x", 1)]])
@pytest.mark.parametrize("k", [None, 2])
def test_each_fold_is_calibrated_by_the_others(names, k):
    rng = np.random.default_rng(2)
    probs, hits = pairs(rng, n=20, k=k or 1)
    if k is None:
        probs, hits = probs[:, 0], hits[:, 0]
    member = np.concatenate([[2], rng.integers(2, size=19)])  # one fold holds a single instance
    folds = [names[m] for m in member]
    wanted = np.empty_like(probs)
    for i in range(20):
        others = [j for j in range(20) if folds[j] != folds[i]]
        fitted = fit_isotonic(probs[others].ravel(), hits[others].ravel())
        wanted[i] = fitted.confidence(probs[i : i + 1].ravel()).reshape(probs[i].shape)
    np.testing.assert_array_equal(crossfit_isotonic(probs, hits, folds), wanted)


def test_as_many_folds_as_instances():
    np.testing.assert_array_equal(crossfit_isotonic([0.1, 0.9], [0, 1], ["a", "b"]), [1, 0])


@pytest.mark.parametrize(
    ("probs", "hits", "folds"),
    [
        ([0.5, 0.5], [0, 1], [1, 1]),  # a single fold
        ([0.5, 0.5], [0, 1], ["a"]),
        ([0.5, 0.5], [0, 1], "ab"),
        ([0.5, 0.5], [0, 1], None),
        ([0.5, 0.5], [0, 1], 2),
        ([0.5, 0.5], [0, 1], [[1], [2]]),
        ([0.5, 0.5], [0, 1], [math.nan, 1]),
        ([0.5, 0.5], [0, 2], [0, 1]),
        ([0.5, 1.5], [0, 1], [0, 1]),
        ([0.5], [1], [0]),
        ([[0.5], [0.5, 0.6]], [[0], [0, 1]], [0, 1]),
        ([[0.5], [0.5]], [0, 1], [0, 1]),
        ([[[0.5]], [[0.5]]], [[[0]], [[1]]], [0, 1]),
        (0.5, 1, [0, 1]),
        ([], [], []),
        (None, None, None),
    ],
)
def test_bad_folds_are_refused(probs, hits, folds):
    with pytest.raises(InvalidInput):
        crossfit_isotonic(probs, hits, folds)


@pytest.mark.parametrize(
    ("probs", "hits", "settings"),
    [
        ([[0.5]], [[1, 0]], {}),
        ([[0.5]], [[0.5]], {}),
        ([[1.5]], [[1]], {}),
        ([[math.nan]], [[1]], {}),
        ([0.5], [1], {}),
        ([], [], {}),
        ([["a"]], [[1]], {}),
        ([[0.5]], [[1]], {"mode": "each"}),
        ([[0.5]], [[1]], {"mode": None}),
        ([[0.5]], [[1]], {"interpolation": "cubic"}),
    ],
)
def test_bad_pairs_are_refused(probs, hits, settings):
    with pytest.raises(InvalidInput):
        fit_top_k(probs, hits, **settings)


def test_nothing_as_wide_as_the_labels_is_made():
    """300 rows of five labels out of a million: a matrix of all labels would take 300 MB even as booleans."""
    rng = np.random.default_rng(3)
    probs, hits = pairs(rng, n=300, k=5)
    labels = rng.integers(1_000_000, size=(300, 5))
    own = fit_isotonic(probs.ravel(), hits.ravel())
    maps: list = [None] * 1_000_000
    maps[7] = own
    labels[0, 0] = 7
    per_label = PerLabel(joint=own, maps=IsotonicMaps.of(maps, "linear"))
    folds = rng.integers(5, size=300)
    tracemalloc.start()
    try:
        for mode in ("joint", "separate"):
            calibrated = fit_top_k(probs, hits, mode=mode).of(probs, labels)
            in_calibrated_order(calibrated)
        crossfit_isotonic(probs, hits, folds)
        per_label.of(probs, labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5e6
