import numpy as np
import pytest

from demur.policies.conformal_sets import SplitSets
from demur.policies.decision import Action
from demur.policies.selector_recipe import FitSplit, SelectorRecipe
from demur.policies.set_size import SetSize
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES
from tests.policies.conftest import assessed


@pytest.mark.parametrize(
    ("settings", "size", "inside", "action"),
    [
        ({}, 1, True, Action.ANSWER),
        ({}, 2, True, Action.REVIEW),
        ({"otherwise": "abstain"}, 2, True, Action.ABSTAIN),
        ({"answer_up_to": 2}, 2, True, Action.ANSWER),
        ({"answer_up_to": 2}, 3, True, Action.REVIEW),
        ({"answer_up_to": 4}, 4, True, Action.ABSTAIN),  # full says nothing, however many are answered
        ({}, 4, True, Action.ABSTAIN),
        ({"when_full": "review"}, 4, True, Action.REVIEW),
        ({}, 0, False, Action.ABSTAIN),
        ({"when_empty": "review"}, 0, False, Action.REVIEW),
        ({}, 1, False, Action.REVIEW),  # only another label is left
        ({"answer_up_to": 3}, 2, False, Action.REVIEW),
    ],
)
def test_decide(settings, size, inside, action):
    rows = assessed([0.9], sizes=[size], in_set=[inside], n_labels=4)
    assert SetSize(**settings).decide(rows).actions == (action,)


@pytest.mark.parametrize(
    ("answer_up_to", "size", "inside", "reason"),
    [
        (1, 3, True, "3 labels cannot be ruled out at 1% error, and one is answered"),
        (2, 3, True, "3 labels cannot be ruled out at 1% error, and up to 2 are answered"),
        (1, 0, False, "all 4 labels are ruled out at 1% error"),
        (1, 4, True, "none of 4 labels can be ruled out at 1% error"),
        (1, 1, False, "1 label cannot be ruled out at 1% error, and the prediction is not among them"),
        (1, 1, True, "1 label cannot be ruled out at 1% error, a promise about all sets and not about the answers"),
    ],
)
def test_the_reason_promises_nothing_of_the_answers(answer_up_to, size, inside, reason):
    rows = assessed([0.9], sizes=[size], in_set=[inside], n_labels=4)
    assert SetSize(answer_up_to=answer_up_to).decide(rows).reasons == (reason,)


def test_an_unknown_confidence_is_held_whatever_the_set():
    decisions = SetSize().decide(assessed([np.nan, 0.2], sizes=[1, 1]))
    assert decisions.actions == (Action.REVIEW, Action.ANSWER)
    assert "unknown" in decisions.reasons[0]


@pytest.mark.parametrize("settings", [{"answer_up_to": 0}, {"answer_up_to": 1.0}, {"otherwise": "answer"}])
def test_settings_that_decide_nothing(settings):
    with pytest.raises(InvalidInput):
        SetSize(**settings)


def selector(sets):
    """Fitted on a model that is always right and sure: what it is not sure of it has never seen."""
    recipe = SelectorRecipe(
        scores={"entropy": SCORES["entropy"]()},
        confidence_score="entropy",
        calibrator=CALIBRATORS["min_max"](),
        policy=SetSize(),
        sets=sets,
    )
    truth = np.arange(60) % 3
    logits = np.eye(3)[truth] * np.linspace(4, 6, 60)[:, None]
    rows = LabelledOutput.of_classes(Output.from_logits(logits), truth)
    return recipe.fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))


DOUBTFUL = Output.from_logits(np.array([[6.0, 0, 0], [0.1, 0, 0], [np.nan, 0, 0]]))


@pytest.mark.parametrize("keep_predicted", [True, False])
def test_a_set_that_nothing_fits_is_not_taken_for_a_sure_one(keep_predicted):
    judged = selector(SplitSets(alpha=0.1, keep_predicted=keep_predicted)).decide(DOUBTFUL)
    assert judged.decisions.actions == (Action.ANSWER, Action.ABSTAIN, Action.REVIEW)
    assert judged.decisions.reasons[1] == "all 3 labels are ruled out at 10% error"
    assert judged.members.sum(axis=1).tolist() == [1, int(keep_predicted), 0]
    assert not judged.usable[2]


def test_too_few_labels_answer_nothing_and_say_so():
    judged = selector(SplitSets(alpha=0.01)).decide(DOUBTFUL)
    assert judged.decisions.actions == (Action.ABSTAIN, Action.ABSTAIN, Action.REVIEW)
    assert judged.decisions.reasons[0] == "none of 3 labels can be ruled out at 1% error (that takes 99 labelled rows)"


def test_a_rule_on_sets_needs_sets():
    with pytest.raises(InvalidInput, match="acts on the size of prediction sets, and there are none"):
        selector(None)
