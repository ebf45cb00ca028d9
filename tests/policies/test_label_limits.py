import numpy as np
import pytest

from demur.policies.decision import Action, LabelConfidence
from demur.policies.label_limits import GivenLabelLimits
from demur.uncertainty.checks import InvalidInput
from tests.policies.conftest import assessed, graded

RULE = GivenLabelLimits(limit=0.6, limits=(0.5, 0.9, 0.5), otherwise="abstain").fit(graded([0.5], [1]))
NAN = float("nan")
LEAST = "the least sure of the predicted labels has confidence 0.89, below 0.90, its limit in the configuration"


@pytest.mark.parametrize(
    ("predicted", "values", "confidence", "action", "reason"),
    [
        ([1, 1, 0], [0.5, 0.9], 0.1, Action.ANSWER, "the least sure of the predicted labels has"),
        ([1, 1, 0], [0.5, 0.89], 0.9, Action.ABSTAIN, LEAST),
        ([1, 0, 0], [0.7, 0.1], 0.9, Action.ANSWER, "the least sure"),  # only predicted labels count
        ([1, 0, 1], [0.7, 0.1], 0.9, Action.ABSTAIN, "a predicted label is not among the most probable ones"),
        ([0, 0, 0], [0.2, 0.1], 0.6, Action.ANSWER, "no label is predicted, and confidence 0.60 in"),
        ([0, 0, 0], [0.2, 0.1], 0.5, Action.ABSTAIN, "no label is predicted, and confidence 0.50 in"),
        ([1, 0, 0], [NAN, 0.1], 0.9, Action.ABSTAIN, "a predicted label is not among the most probable ones"),
        ([1, 0, 0], [0.7, 0.1], NAN, Action.ABSTAIN, "the confidence is unknown"),
    ],
)  # fmt: skip
def test_every_predicted_label_must_come_up_to_its_own_limit(predicted, values, confidence, action, reason):
    known = LabelConfidence(
        predicted=np.array([predicted], dtype=bool), top=np.array([[0, 1]]), values=np.array([values])
    )
    decided = RULE.decide(assessed([confidence], label_confidence=known))
    assert decided.actions == (action,)
    assert decided.reasons[0].startswith(reason)


def test_labels_without_confidence_have_no_limits():
    with pytest.raises(InvalidInput, match="labels have no confidence"):
        RULE.decide(assessed([0.5]))


@pytest.mark.parametrize("settings", [{"limit": 1.5}, {"limits": (0.5, 1.5)}])
def test_limits_are_confidences(settings):
    with pytest.raises(InvalidInput):
        GivenLabelLimits(**{"limit": 0.5, "limits": (0.5,), **settings})
