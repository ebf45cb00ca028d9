"""Calibrated probabilities of all classes (METHODS 10.2)."""

import numpy as np
import pytest
from scipy.special import softmax

from demur.uncertainty.class_calibration import fit_dirichlet, fit_vector_scaling


def draw(rng, n, k=4):
    """A model that is too sure, and prefers the first class."""
    z = rng.normal(size=(n, k)) * 1.5
    labels = (softmax(z, axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return softmax(2 * z + 1.5 * (np.arange(k) == 0), axis=1), labels


def nll(p, labels):
    return -np.log(p[np.arange(len(p)), labels]).mean()


@pytest.mark.parametrize("fit", [fit_vector_scaling, fit_dirichlet])
def test_a_model_that_prefers_a_class_is_put_right(fit):
    rng = np.random.default_rng(0)
    fitted = fit(*draw(rng, 2_000))
    p, labels = draw(rng, 4_000)
    calibrated = fitted.of_classes(p)
    assert calibrated.sum(axis=1) == pytest.approx(np.ones(len(p)))
    assert nll(calibrated, labels) < nll(p, labels) - 0.2
    assert calibrated.mean(axis=0) == pytest.approx(np.bincount(labels) / len(labels), abs=0.03)


@pytest.mark.parametrize("fit", [fit_vector_scaling, fit_dirichlet])
def test_a_class_without_rows_and_separated_classes_have_a_fit(fit):
    p = [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05]] * 5
    fitted = fit(p, [0, 1] * 5)
    assert np.isfinite(fitted.w).all()
    assert np.isfinite(fitted.of_classes([[1.0, 0.0, 0.0]])).all()


def test_a_heavy_penalty_leaves_probabilities_as_they_are():
    p, labels = draw(np.random.default_rng(1), 200)
    kept = fit_dirichlet(p, labels, off_diagonal=1e6, intercept=1e6, diagonal=1e6).of_classes(p)
    assert kept == pytest.approx(p, abs=1e-3)
