import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import LocalOutlierFactor as Reference

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.local_outlier_factor import LocalOutlierFactor, fit_local_outlier_factor
from demur.uncertainty.output import LabelledOutput, Output


def by_hand(train, queries, k):
    """The definition of METHODS 1.3, word for word."""
    k = min(k, len(train) - 1)

    def neighbours(x, leave_out=None):
        ranked = sorted((math.dist(x, o), i) for i, o in enumerate(train) if i != leave_out)  # ties: lowest index
        return ranked[:k]

    near = [neighbours(o, i) for i, o in enumerate(train)]
    kdist = [ranked[-1][0] for ranked in near]

    def density(ranked):
        return 1 / (sum(max(kdist[i], d) for d, i in ranked) / k + 1e-10)

    densities = [density(ranked) for ranked in near]
    found = [neighbours(x) for x in queries]
    return [sum(densities[i] for _, i in ranked) / k / density(ranked) for ranked in found]


@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_it_is_the_definition_also_with_ties_and_duplicates(seed):
    rng = np.random.default_rng(seed)
    n, d, k = rng.integers(2, 12), rng.integers(1, 4), rng.integers(1, 15)
    if seed % 3:  # on a small grid of whole numbers, with many ties and points that coincide
        train, queries = rng.integers(0, 3, size=(n, d)).astype(float), rng.integers(0, 4, size=(6, d)).astype(float)
    else:
        train, queries = rng.normal(size=(n, d)), rng.normal(size=(6, d)) * 3
    fitted = fit_local_outlier_factor(train, k=int(k))
    np.testing.assert_allclose(fitted.factor(queries), by_hand(train.tolist(), queries.tolist(), k), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e9, 1e100])
def test_distances_of_any_scale(scale):
    rng = np.random.default_rng(0)
    train, queries = rng.normal(size=(12, 3)) * scale, rng.normal(size=(5, 3)) * scale
    wanted = by_hand(train.tolist(), queries.tolist(), 4)
    np.testing.assert_allclose(fit_local_outlier_factor(train, k=4).factor(queries), wanted, rtol=1e-9)


def test_without_ties_it_is_what_others_compute():
    rng = np.random.default_rng(1)
    train, queries = rng.normal(size=(600, 5)), rng.normal(size=(300, 5)) * 2  # more than one block of either
    reference = -Reference(n_neighbors=20, novelty=True).fit(train).score_samples(queries)
    np.testing.assert_allclose(fit_local_outlier_factor(train).factor(queries), reference, rtol=1e-6)


def test_an_inlier_is_about_one_and_a_stranger_is_not():
    train = np.array([[x, y] for x in range(10) for y in range(10)], dtype=float)
    inlier, stranger = fit_local_outlier_factor(train, k=5).factor([[4.5, 4.5], [40, 40]])
    assert inlier == pytest.approx(1, abs=0.2)
    assert stranger > 10


def test_it_never_looks_at_more_than_all_others():
    train = np.random.default_rng(2).normal(size=(6, 2))
    np.testing.assert_array_equal(
        fit_local_outlier_factor(train, k=20).factor(train), fit_local_outlier_factor(train, k=5).factor(train)
    )


def test_points_that_all_coincide():
    fitted = fit_local_outlier_factor(np.ones((4, 2)), k=2)
    assert fitted.factor([[1, 1]])[0] == pytest.approx(1)
    assert fitted.factor([[2, 1]])[0] == pytest.approx(1e10)


def test_the_score_as_it_is_configured():
    rng = np.random.default_rng(3)
    output = Output.from_logits(np.zeros((30, 2)), embedding=rng.normal(size=(30, 3)))
    rows = LabelledOutput.of_classes(output, np.arange(30) % 2)
    fitted = LocalOutlierFactor(k=4).fit(rows, np.ones(30))
    assert fitted.k == 4
    np.testing.assert_array_equal(
        fitted.of(output), fit_local_outlier_factor(output.embedding, k=4).factor(output.embedding)
    )


@pytest.mark.parametrize(
    ("train", "queries", "k"),
    [
        ([[0.0, 0]], [[0, 0]], 1),  # a single point has no neighbour
        ([], [[0, 0]], 1),
        ([[0.0], [1.0]], [], 1),
        ([[0.0], [1.0]], [[0, 0]], 1),
        ([[0.0], [math.nan]], [[0]], 1),
        ([[0.0], [1.0]], [[math.inf]], 1),
        ([0.0, 1.0], [[0.0]], 1),
        ([[0.0], [1.0, 2.0]], [[0.0]], 1),
        ([[0.0], [1.0]], [[0.0]], 0),
        ([[0.0], [1.0]], [[0.0]], -1),
        ([[0.0], [1.0]], [[0.0]], 1.0),
        ([[0.0], [1.0]], [[0.0]], True),
        ([[0.0], [1.0]], [[0.0]], "1"),
        ([[0.0], [1.0]], [[0.0]], None),
    ],
)
def test_bad_input_is_refused(train, queries, k):
    with pytest.raises(InvalidInput):
        fit_local_outlier_factor(train, k=k).factor(queries)


@pytest.mark.parametrize("k", [0, 2.0, True, None])
def test_k_is_checked_before_there_is_data(k):
    with pytest.raises(InvalidInput, match="k is"):
        LocalOutlierFactor(k=k)
