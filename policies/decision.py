"""What may be decided about a prediction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, Mask


class Action(StrEnum):
    ANSWER = "answer"  # sure enough: the caller may rely on it
    REVIEW = "review"  # held, and a person is asked
    ABSTAIN = "abstain"  # held, and nobody is asked
    ESCALATE = "escalate"  # not answered yet: the next model of the cascade is asked; never the last word


@dataclass(frozen=True, kw_only=True)
class LabelConfidence:
    """How probable the predicted labels are, where labels do not exclude each other."""

    predicted: Mask
    """[n, C]."""

    top: NDArray[np.intp]
    """[n, k], the most probable labels."""

    values: Array
    """[n, k], their calibrated probabilities; nothing is known of the other labels."""


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What a rule may look at: a batch of `n` predictions, before anything is decided. Undefined numbers are NaN."""

    confidence: Array
    """[n], how right the prediction is expected to be."""

    scores: Mapping[str, Array]
    """[n] for each score and combination, higher when less sure."""

    set_size: NDArray[np.intp]
    """[n], how many labels the prediction set does not rule out; where there are no sets, how many are predicted."""

    in_set: Mask
    """[n], True where the prediction set does not rule out what is predicted."""

    n_labels: int
    """That there are: a set of so many rules out nothing."""

    set_promise: str = ""
    """At what error the sets rule labels out, in words; empty where there are no sets."""

    more_labels: NDArray[np.intp] | None = None
    """[n], how many labels that are not predicted the set does not rule out; None where there are no sets."""

    label_confidence: LabelConfidence | None = None
    """Of the labels of a multilabel task, where they are calibrated."""

    expected_cost: Array | None = None
    """[n], of acting on what is predicted, where costs are given."""

    def __len__(self) -> int:
        return len(self.confidence)


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """One action and one readable reason for each row of a batch."""

    actions: tuple[Action, ...]
    reasons: tuple[str, ...]

    @classmethod
    def where(cls, answered: Mask, *, reasons: Sequence[str], otherwise: Action = Action.REVIEW) -> "Decisions":
        """Answer the rows that are True and hold the others as `otherwise`."""
        return cls(
            actions=tuple(Action.ANSWER if yes else otherwise for yes in answered.tolist()), reasons=tuple(reasons)
        )

    def rows(self, index: Sequence[int]) -> "Decisions":
        """Return those of these rows."""
        return Decisions(
            actions=tuple(self.actions[row] for row in index), reasons=tuple(self.reasons[row] for row in index)
        )

    def replaced(self, rows: Mask, known: "Decisions") -> "Decisions":
        """Return these decisions with the rows that are True taken from `known`, in order."""
        theirs = iter(zip(known.actions, known.reasons, strict=True))
        mine = zip(self.actions, self.reasons, strict=True)
        mixed = [next(theirs) if taken else own for own, taken in zip(mine, rows, strict=True)]
        return Decisions(actions=tuple(action for action, _ in mixed), reasons=tuple(reason for _, reason in mixed))

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def answered(self) -> Mask:
        return np.array([action is Action.ANSWER for action in self.actions], dtype=bool)
