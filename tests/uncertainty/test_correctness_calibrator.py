"""The calibrator chooses between the whole output and the score alone: by the cross-fitted loss, and a lead."""

import numpy as np
import pytest

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.correctness_calibrator import LEAD, Correctness
from demur.uncertainty.correctness_model import correctness_crossfit


def rows(n, rng, *, label_matters):
    """Return probabilities [n, 3], and whether the most probable label is right: less often for one of them."""
    probs = rng.dirichlet([2.0, 2.0, 2.0], n)
    harder = label_matters * (probs.argmax(axis=1) == 1)
    return probs, (rng.random(n) < np.clip(probs.max(axis=1) + 0.3 - harder, 0.05, 0.95)).astype(float)


def fitted(probs, correct, **settings):
    given = np.eye(probs.shape[1])[probs.argmax(axis=1)]
    return Correctness(**settings).fit(np.stack([probs, given], axis=1), correct)


def test_many_rows_need_no_lead():
    made = rows(600, np.random.default_rng(0), label_matters=0.5)
    assert fitted(*made).use == fitted(*made, lead=1e9).use == "model"


def test_a_smaller_lead_than_is_asked_for_leaves_the_score_and_says_so():
    probs, correct = rows(90, np.random.default_rng(0), label_matters=0.5)
    lead = 90 * ((one := fitted(probs, correct, lead=0.0)).score_nll - one.nll)
    assert lead > LEAD
    assert fitted(probs, correct, lead=lead * 0.999).use == "model"
    found = fitted(probs, correct, lead=lead * 1.001)
    assert found.use == "score"
    assert "too little better to rely on" in found.remark
    assert (found.nll, found.score_nll) == (one.nll, one.score_nll)
    with pytest.raises(InvalidInput, match="lead"):
        Correctness(lead=-1.0)


def test_without_a_lead_the_choice_is_that_of_the_cross_fitted_loss_alone():
    recipe, told = Correctness(lead=0.0), set()
    for seed in range(12):
        probs, correct = rows(60, np.random.default_rng(seed), label_matters=0.0)
        found = fitted(probs, correct, lead=0.0)
        if found.nll is None:
            continue
        member = recipe._members(60, None)
        by_loss = correctness_crossfit(probs, correct, member, recipe.recipe, score=recipe.by_score).use
        assert found.use == by_loss
        told.add(by_loss)
    assert told == {"model", "score"}


def test_of_few_rows_that_show_nothing_the_lead_takes_the_model_less_often():
    used = {0.0: 0, LEAD: 0}
    for seed in range(40):
        made = rows(50, np.random.default_rng(seed), label_matters=0.0)
        for lead in used:
            used[lead] += fitted(*made, lead=lead).use == "model"
    assert used[LEAD] < used[0.0]
