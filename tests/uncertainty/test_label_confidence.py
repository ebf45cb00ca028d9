from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.label_confidence import TopKIsotonic
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.top_k import fit_top_k, top_labels


def rows(n=150, labels=6, seed=0):
    rng = np.random.default_rng(seed)
    probabilities = rng.uniform(0.01, 0.99, size=(n, labels))
    output = Output.from_logits(logit(probabilities), link="sigmoid")
    return LabelledOutput(output=output, truth=rng.random((n, labels)) < probabilities**2, exclusive=False)


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_the_most_probable_labels_are_calibrated_most_probable_first(mode):
    known = rows()
    probabilities, truth = known.output.probabilities, known.truth
    labels = top_labels(probabilities, 3)
    top = np.array([[probabilities[i, j] for j in row] for i, row in enumerate(labels)])
    hits = np.array([[truth[i, j] for j in row] for i, row in enumerate(labels)])
    wanted = fit_top_k(top, hits, mode=mode).of(top)
    np.testing.assert_array_equal(TopKIsotonic(mode=mode, k=3).fit(known).of(probabilities), wanted)


@pytest.mark.parametrize("mode", ["joint", "separate", "per_label"])
def test_a_row_is_calibrated_alike_alone_and_in_company(mode):
    known, new = rows(), rows(n=20, seed=1).output.probabilities
    fitted = TopKIsotonic(mode=mode, k=4, least=10).fit(known)
    together = fitted.of(new)
    assert together.shape == (20, 4)
    assert ((together >= 0) & (together <= 1)).all()
    for i in range(20):
        np.testing.assert_array_equal(fitted.of(new[i : i + 1])[0], together[i])


@pytest.mark.parametrize("mode", ["joint", "separate", "per_label"])
def test_calibrated_probabilities_are_nearer_to_the_truth(mode):
    known, later = rows(n=3000), rows(n=3000, seed=2)
    probabilities = later.output.probabilities
    labels = top_labels(probabilities, 5)
    before = np.take_along_axis(probabilities, labels, axis=1)
    hits = np.take_along_axis(later.truth, labels, axis=1)
    after = TopKIsotonic(mode=mode).fit(known).of(probabilities)
    assert np.mean((after - hits) ** 2) < np.mean((before - hits) ** 2) - 0.01
    assert np.mean(after) == pytest.approx(hits.mean(), abs=0.02)


def test_there_are_no_more_labels_than_there_are():
    known = rows(labels=2)
    fitted = TopKIsotonic(k=5).fit(known)
    assert fitted.k == 2
    assert fitted.of(known.output.probabilities).shape == (150, 2)


@pytest.mark.parametrize(
    "settings",
    [{"k": 0}, {"k": 2.0}, {"k": True}, {"least": 0}, {"mode": "all"}, {"mode": None}, {"interpolation": "cubic"}],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InvalidInput):
        TopKIsotonic(**settings)


@pytest.mark.parametrize("mode", ["joint", "separate", "per_label"])
def test_a_row_of_weight_three_counts_like_three_rows(mode):
    known = rows(n=200)
    times = np.random.default_rng(1).choice([1, 3], size=200)
    recipe, probabilities = TopKIsotonic(mode=mode, k=3, least=10), known.output.probabilities
    weighted = recipe.fit(replace(known, weights=times.astype(float))).of(probabilities)
    copies = recipe.fit(known.rows(np.repeat(np.arange(200), times))).of(probabilities)
    np.testing.assert_allclose(weighted, copies, rtol=1e-9)
    assert np.abs(weighted - recipe.fit(known).of(probabilities)).max() > 1e-3
