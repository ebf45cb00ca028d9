"""The probability of being right, from the whole output (METHODS 10.1)."""

import numpy as np
import pytest
from scipy.special import softmax

from demur.audit.metrics.discrimination import error_roc_auc
from demur.uncertainty.correctness_model import CorrectnessRecipe, correctness_crossfit
from demur.uncertainty.label_correctness import LabelCorrectnessRecipe


def draw(rng, n, k=4):
    """A model that is wrong mostly when it gives the label 1."""
    p = softmax(rng.normal(size=(n, k)) * 2, axis=1)
    given = p.argmax(axis=1)
    right = rng.random(n) < np.where(given == 1, 0.4, 0.6 + 0.4 * p.max(axis=1))
    return p, right.astype(float)


def test_it_sees_the_label_that_the_score_cannot_see():
    rng = np.random.default_rng(0)
    p, right = draw(rng, 600)
    new, truth = draw(rng, 2_000)
    whole = CorrectnessRecipe().fit(p, right)
    alone = CorrectnessRecipe(blocks=()).fit(p, right)
    assert (whole.kind, alone.kind) == ("model", "score")
    assert error_roc_auc(truth, 1 - whole.confidence(new)) > error_roc_auc(truth, 1 - alone.confidence(new)) + 0.05
    found = correctness_crossfit(p, right, np.arange(600) % 5, CorrectnessRecipe())
    assert found.use == "model"
    assert found.nll < found.score_nll


def test_where_the_score_says_all_the_score_is_kept():
    rng = np.random.default_rng(1)
    p = softmax(rng.normal(size=(60, 8)) * 2, axis=1)
    right = (rng.random(60) < p.max(axis=1)).astype(float)
    assert correctness_crossfit(p, right, np.arange(60) % 3, CorrectnessRecipe(min_events=1)).use == "score"


def test_a_row_without_a_label_changes_nothing():
    p, right = draw(np.random.default_rng(2), 100)
    plain = CorrectnessRecipe().fit(p, right).confidence(p)
    more = CorrectnessRecipe().fit(np.vstack([p, p]), [*right, *[None] * 100], weights=[1] * 100 + [0] * 100)
    assert more.confidence(p) == pytest.approx(plain, abs=1e-9)


@pytest.mark.parametrize("right", [[1.0], [0.0]])
def test_one_row_and_one_outcome_are_enough_for_the_score(right):
    fitted = CorrectnessRecipe().fit([[0.7, 0.3]], right)
    assert fitted.kind == "score"
    assert 0 < fitted.confidence([[0.9, 0.1]])[0] < 1


def test_a_label_of_several_has_an_intercept_of_its_own():
    rng = np.random.default_rng(3)
    p = rng.random((500, 3))
    truth = rng.random(p.shape) < p * np.array([1.0, 1.0, 0.3])  # the last label holds less often than is said
    fitted = LabelCorrectnessRecipe().fit(p, truth)
    assert fitted.labels.tolist() == [0, 1, 2]
    assert fitted.probability(p).mean(axis=0) == pytest.approx(truth.mean(axis=0), abs=0.03)
    assert LabelCorrectnessRecipe().fit([[0.5]], [[1]]).kind == "score"
