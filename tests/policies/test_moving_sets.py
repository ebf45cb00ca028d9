from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.policies.adaptive import run_adaptive
from demur.policies.conformal import conformal_quantile, quantile_at
from demur.policies.conformal_sets import AdaptiveSets, SplitSets
from demur.policies.control import AdaptiveLevel, ControlledValue
from demur.policies.decision import Action
from demur.policies.moved_inputs import CurrentTraffic
from demur.policies.moved_sets import moved_sets
from demur.policies.moving_sets import FixedSets, at_level
from demur.policies.selector_recipe import FitSplit, SelectorRecipe
from demur.policies.set_size import SetSize
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES


def draw(seed, n=200):
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n)
    logits = rng.normal(size=(n, 3)) * 1.5
    logits[np.arange(n), truth] += 1
    return LabelledOutput.of_classes(Output.from_logits(logits), truth), truth


def selector(sets):
    rows, _ = draw(0)
    recipe = SelectorRecipe(
        scores={"entropy": SCORES["entropy"]()},
        confidence_score="entropy",
        calibrator=CALIBRATORS["min_max"](),
        policy=SetSize(),
        sets=sets,
    )
    return recipe.fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))


MOVABLE = SplitSets(alpha=0.1, keep_predicted=False)
FITTED = selector(MOVABLE)


@given(st.floats(0.001, 0.999))
def test_at_any_level_the_quantile_is_that_of_a_fit(level):
    assert quantile_at(FITTED.sets.ranked, level) == conformal_quantile(FITTED.sets.ranked, level)


def test_at_the_level_of_the_fit_nothing_changes():
    output = draw(1)[0].output
    moved = at_level(FITTED, 0.1).decide(output)
    assert (moved.members == FITTED.decide(output).members).all()
    assert moved.decisions.actions == FITTED.decide(output).decisions.actions


@pytest.mark.parametrize(("level", "size"), [(0.0, 3), (-0.3, 3), (1.0, 0), (1.7, 0)])
def test_at_the_ends_sets_are_full_or_empty_and_nothing_is_answered(level, size):
    judged = at_level(FITTED, level).decide(draw(1)[0].output)
    assert (judged.members.sum(axis=1) == size).all()
    assert Action.ANSWER not in judged.decisions.actions
    assert f"at {0 if level <= 0 else 100}% error" in judged.decisions.reasons[0]
    assert not any(promise.feasible for promise in at_level(FITTED, level).promises)


def test_a_level_that_every_label_moves_is_aci():
    """With fixed calibration scores; the paper's own run adds each true score to them, which one row leaves small."""
    rows, truth = draw(2, n=30)
    control, course = AdaptiveLevel(alpha=0.1, step=0.05, least=1.0), ControlledValue.at(0.1)
    expected = run_adaptive(0.1, 0.05, FITTED.sets.ranked, 1 - rows.output.probabilities[[0], truth[:1]])
    for at in range(30):
        members = at_level(FITTED, course.value).decide(rows.output.rows(np.array([at]))).members[0]
        course = control.after_label(control.after_request(course), float(not members[truth[at]]), 1.0)
        if at == 0:
            assert course.value == expected.alphas[1]
    low, high = control.reach(course)
    assert low <= course.average <= high


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        (AdaptiveSets(alpha=0.1), "of kind `split`"),
        (SplitSets(alpha=0.1), "keep_predicted: false"),
    ],
)
def test_sets_that_cannot_be_moved_are_refused(sets, why):
    with pytest.raises(FixedSets, match=why):
        at_level(selector(sets), 0.2)


def test_an_artifact_from_before_says_what_is_missing():
    old = replace(FITTED, sets=replace(FITTED.sets, ranked=None))
    with pytest.raises(FixedSets, match="keeps no calibration scores"):
        at_level(old, 0.2)


def test_sets_for_other_traffic_do_not_move():
    rows, _ = draw(0, 400)
    current = CurrentTraffic(output=draw(2, 400)[0].output)
    sets = moved_sets(MOVABLE, rows.output, rows.classes, current=current, reference=draw(3, 400)[0].output)
    with pytest.raises(FixedSets, match="fitted for other traffic"):
        at_level(replace(FITTED, sets=sets), 0.1)
