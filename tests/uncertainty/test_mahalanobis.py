import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.mahalanobis import (
    Mahalanobis,
    RelativeMahalanobis,
    fit_mahalanobis,
    fit_relative_mahalanobis,
    ledoit_wolf,
)
from demur.uncertainty.output import LabelledOutput, Output


def test_the_distance_is_that_of_the_textbook():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5)), rng.integers(3, size=200)
    means = np.array([features[labels == c].mean(axis=0) for c in range(3)])
    inverse = np.linalg.inv((features - means[labels]).T @ (features - means[labels]) / 200)
    query = rng.normal(size=(7, 5)) * 3
    by_hand = [min((h - m) @ inverse @ (h - m) for m in means) for h in query]
    np.testing.assert_allclose(fit_mahalanobis(features, labels).distance(query), by_hand, rtol=1e-9)


def test_a_far_offset_does_not_cost_precision():
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(100, 3)), rng.integers(2, size=100)
    near = fit_mahalanobis(features, labels).distance(features[:5])
    far = fit_mahalanobis(features + 1e6, labels).distance(features[:5] + 1e6)
    np.testing.assert_allclose(near, far, rtol=1e-8)


def test_one_row_does_not_depend_on_the_others():
    rng = np.random.default_rng(2)
    fitted = fit_mahalanobis(rng.normal(size=(50, 4)), rng.integers(2, size=50))
    query = rng.normal(size=(6, 4))
    # to the last digit but one: matrix products of other shapes are summed in another order
    np.testing.assert_allclose(fitted.distance(query)[3:4], fitted.distance(query[3:4]), rtol=1e-12)


def test_a_singular_covariance_asks_for_shrinkage():
    features, labels = np.repeat(np.eye(6), 2, axis=0), np.arange(12) % 2
    with pytest.raises(InvalidInput, match="shrinkage"):
        fit_mahalanobis(features, labels)
    assert np.isfinite(fit_mahalanobis(features, labels, shrinkage=0.1).distance(features)).all()


def test_it_says_what_is_missing():
    rows = LabelledOutput.of_classes(Output.from_logits(np.zeros((4, 2))), np.arange(4) % 2)
    with pytest.raises(InvalidInput, match="needs the embedding"):
        Mahalanobis().fit(rows, np.ones(4))


@pytest.mark.parametrize("shrinkage", [-0.1, 1.1, float("nan")])
def test_shrinkage_is_a_share(shrinkage):
    with pytest.raises(InvalidInput, match="shrinkage"):
        Mahalanobis(shrinkage=shrinkage)


def by_hand(train, labels, query, shrinkage):
    """METHODS 1.3 with a plain inverse."""
    n, d = train.shape
    means = {c: train[[label == c for label in labels]].mean(axis=0) for c in set(labels)}
    centred = np.array([h - means[c] for h, c in zip(train, labels, strict=True)])
    covariance = centred.T @ centred / n
    covariance = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / d * np.eye(d)
    inverse = np.linalg.inv(covariance)
    return np.array([min((h - mean) @ inverse @ (h - mean) for mean in means.values()) for h in query])


@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_both_distances_are_their_definitions(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(12, 30)), int(rng.integers(1, 5))
    scale, shrinkage = 10.0 ** rng.integers(-8, 9), float(rng.choice([0, 0.05, 0.5, 1]))
    train, query = rng.normal(size=(n, d)) * scale, rng.normal(size=(5, d)) * 2 * scale
    names = [["a", "b", "c"], [1, None, (0, 1)], [True, 2.5, "x"]][seed % 3]
    labels = [names[i] for i in rng.integers(1 + seed % 4 % 3, size=n)]
    near = by_hand(train, labels, query, shrinkage)
    np.testing.assert_allclose(fit_mahalanobis(train, labels, shrinkage=shrinkage).distance(query), near, rtol=1e-8)
    all_alike = by_hand(train, [0] * n, query, shrinkage)
    relative = fit_relative_mahalanobis(train, labels, shrinkage=shrinkage).distance(query)
    np.testing.assert_allclose(relative, near - all_alike, rtol=1e-8, atol=1e-8 * all_alike.max())


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e200])
def test_the_distance_has_no_unit(scale):
    rng = np.random.default_rng(4)
    train, labels = rng.normal(size=(40, 3)), rng.integers(2, size=40)
    plain = fit_mahalanobis(train, labels, shrinkage=0.1).distance(train)
    np.testing.assert_allclose(
        fit_mahalanobis(train * scale, labels, shrinkage=0.1).distance(train * scale), plain, rtol=1e-9
    )


def test_with_one_class_the_relative_distance_says_nothing():
    rng = np.random.default_rng(5)
    fitted = fit_relative_mahalanobis(rng.normal(size=(20, 2)), ["only"] * 20)
    np.testing.assert_array_equal(fitted.distance(rng.normal(size=(4, 2)) * 9), 0)
    with pytest.raises(InvalidInput):
        fitted.distance([[1.0, np.nan]])


def test_the_relative_distance_may_be_negative_and_grows_between_classes():
    train = np.array([[x + c, y] for c in (0, 10) for x in (-1, 0, 1) for y in (-1, 0, 1)], dtype=float)
    fitted = fit_relative_mahalanobis(train, [0] * 9 + [1] * 9)
    on_a_class, between = fitted.distance([[0, 0], [5, 0]])
    assert on_a_class < 0 < between


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e-9, 1e9])
@pytest.mark.parametrize("d", [1, 2])
def test_features_that_are_constant_are_singular_though_their_mean_is_rounded(value, d):
    train = np.column_stack([np.full(7, value), np.arange(7.0)][:d])
    with pytest.raises(InvalidInput, match="singular"):
        fit_mahalanobis(train, [0] * 7)


@pytest.mark.parametrize("fit", [fit_mahalanobis, fit_relative_mahalanobis])
@pytest.mark.parametrize(
    ("train", "labels", "features", "shrinkage"),
    [
        ([], [], [[0.0]], 0),
        ([[0.0], [1.0]], [0], [[0.0]], 0),
        ([[0.0], [1.0]], None, [[0.0]], 0),
        ([[0.0], [1.0]], 3, [[0.0]], 0),
        ([[0.0], [1.0]], "ab", [[0.0]], 0),
        ([[0.0], [1.0]], [0, float("nan")], [[0.0]], 0),
        ([[0.0], [1.0]], [[0], [0]], [[0.0]], 0),  # a list is no name
        ([[0.0], [float("inf")]], [0, 0], [[0.0]], 0),
        ([[0.0], [1.0]], [0, 0], [[float("nan")]], 0),
        ([[0.0], [1.0]], [0, 0], [[0.0, 1.0]], 0),
        ([[0.0], [1.0]], [0, 0], [], 0),
        ([[0.0], [1.0]], [0, 1], [[0.0]], 0),  # each class is one point: no spread
        ([[0.0], [1.0]], [0, 0], [[0.0]], "0.1"),
        ([[0.0], [1.0]], [0, 0], [[0.0]], None),
        ([[0.0], [1.0]], [0, 0], [[0.0]], True),
    ],
)
def test_bad_input_is_refused(fit, train, labels, features, shrinkage):
    with pytest.raises(InvalidInput):
        fit(train, labels, shrinkage=shrinkage).distance(features)


def test_the_relative_score_as_it_is_configured():
    rng = np.random.default_rng(6)
    output = Output.from_logits(np.zeros((30, 2)), embedding=rng.normal(size=(30, 3)))
    rows = LabelledOutput.of_classes(output, np.arange(30) % 2)
    fitted = RelativeMahalanobis(shrinkage=0.1).fit(rows, np.ones(30))
    wanted = fit_relative_mahalanobis(output.embedding, np.arange(30) % 2, shrinkage=0.1)
    np.testing.assert_array_equal(fitted.of(output), wanted.distance(output.embedding))


def test_ledoit_wolf_is_that_of_scikit_learn():
    from sklearn.covariance import ledoit_wolf_shrinkage

    rng = np.random.default_rng(5)
    for n, d in ((443, 96), (30, 50), (500, 3), (2, 4)):
        centred = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
        assert ledoit_wolf(centred) == pytest.approx(ledoit_wolf_shrinkage(centred, assume_centered=True), rel=1e-9)
    assert ledoit_wolf(np.zeros((3, 2))) == 0


def test_ordinary_embeddings_need_no_setting():
    """443 embeddings of 96 numbers after a layer norm, where the plain covariance is singular."""
    rng = np.random.default_rng(6)
    h = rng.normal(size=(443, 24)) @ rng.normal(size=(24, 96))
    h = (h - h.mean(axis=1, keepdims=True)) / h.std(axis=1, keepdims=True)
    classes = rng.integers(4, size=443)
    rows = LabelledOutput.of_classes(Output.from_logits(np.eye(4)[classes], embedding=h), classes)
    with pytest.raises(InvalidInput, match="singular"):
        Mahalanobis(shrinkage=0.0).fit(rows, np.ones(443))
    for recipe in (Mahalanobis(), RelativeMahalanobis()):
        fitted = recipe.fit(rows, np.ones(443))
        near = getattr(fitted, "nearest", fitted)
        assert 0 < near.shrinkage < 0.5
        assert np.isfinite(fitted.of(rows.output)).all()
    with pytest.raises(InvalidInput, match="not a number from 0 to 1 or ledoit_wolf"):
        Mahalanobis(shrinkage="some")
