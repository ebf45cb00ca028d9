from dataclasses import replace

import numpy as np
import pytest

from demur.policies.conformal_sets import SplitSets
from demur.policies.decision import Action
from demur.policies.selector import UNUSABLE
from demur.policies.selector_recipe import FitSplit, SelectorRecipe
from demur.policies.threshold import TargetRisk
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES


def labelled(rng, n=300, classes=3):
    truth = rng.integers(classes, size=n)
    logits = rng.normal(size=(n, classes)) * 1.5
    logits[np.arange(n), truth] += 2
    return LabelledOutput.of_classes(Output.from_logits(logits, embedding=rng.normal(size=(n, 4))), truth)


def shared(rows):
    return FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows)


def recipe(score="softmax_response", scores=("softmax_response", "entropy", "mahalanobis")):
    return SelectorRecipe(
        scores={name: SCORES[name]() for name in scores},
        confidence_score=score,
        calibrator=CALIBRATORS["platt"](),
        policy=TargetRisk(max_risk=0.05),
        sets=SplitSets(alpha=0.1),
    )


@pytest.fixture
def selector():
    rows = labelled(np.random.default_rng(0))
    return recipe().fit(shared(rows))


def test_one_row_is_judged_alike_alone_and_in_company(selector):
    output = labelled(np.random.default_rng(1), n=40).output
    together = selector.decide(output)
    for i in range(40):
        alone = selector.decide(output.rows(np.array([i])))
        assert alone.confidence[0] == together.confidence[i]
        assert alone.decisions.actions[0] is together.decisions.actions[i]
        for name, score in alone.scores.items():
            assert score[0] == pytest.approx(together.scores[name][i], rel=1e-12)


def test_an_unusable_row_is_held_and_its_neighbours_are_not_touched(selector):
    output = labelled(np.random.default_rng(1), n=6).output
    before = selector.decide(output)
    output.embedding[2, 1] = np.nan
    output.probabilities[4] = np.nan
    after = selector.decide(output)
    for i in (2, 4):
        assert after.decisions.actions[i] is Action.REVIEW
        assert after.decisions.reasons[i] == UNUSABLE
        assert not after.usable[i]
        assert not after.predicted[i].any()
        assert np.isnan(after.confidence[i])
        assert np.isnan(after.scores["entropy"][i])
    for i in (0, 1, 3, 5):
        assert after.confidence[i] == before.confidence[i]
        assert after.decisions.reasons[i] == before.decisions.reasons[i]


def test_a_score_that_is_endlessly_sure_is_unknown_and_held(selector):
    output = labelled(np.random.default_rng(1), n=6).output
    rows = selector.scores["softmax_response"]
    endless = type("Endless", (), {"needs": rows.needs, "of": lambda _, known: np.full(len(known), -np.inf)})()
    judged = replace(selector, scores={**selector.scores, "softmax_response": endless}).decide(output)
    assert set(judged.decisions.actions) == {Action.REVIEW}
    assert np.isnan(judged.confidence).all()


def test_a_batch_without_a_usable_row_is_held_whole(selector):
    output = Output.from_logits(np.full((3, 3), np.nan), embedding=np.ones((3, 4)))
    assert selector.decide(output).decisions.actions == (Action.REVIEW,) * 3


def test_a_model_that_gives_no_numbers_cannot_be_fitted():
    rows = labelled(np.random.default_rng(0))
    rows.output.logits[7] = np.nan
    with pytest.raises(InvalidInput, match="1 of 300 rows"):
        recipe().fit(shared(rows))


def test_it_asks_the_model_for_what_its_scores_need_and_no_more():
    assert recipe(scores=("softmax_response",)).needs == {"probabilities"}
    assert recipe().needs == {"probabilities", "embedding"}
    assert recipe(scores=("softmax_response", "bald")).needs == {"probabilities", "mc_probabilities"}


def test_only_a_fitted_score_behind_the_confidence_needs_rows_of_its_own():
    assert not recipe().scores_learn
    assert recipe(score="mahalanobis").scores_learn
