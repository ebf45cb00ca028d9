"""What is said about a batch once everything is known about it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.policies.decision import Decisions
from demur.uncertainty.checks import Array, Mask


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the selector says about a batch of `n` rows. Undefined numbers are NaN."""

    usable: Mask
    """[n], False where the output was not a number: nothing is predicted there."""

    predicted: Mask
    """[n, C], True for the predicted label, or for each of them."""

    confidence: Array
    """[n], how right the prediction is expected to be."""

    scores: dict[str, Array]
    """[n] for each score."""

    members: Mask
    """[n, C], True for labels shown as the prediction set."""

    with_sets: bool = True
    """Whether `members` are prediction sets; else they are what is predicted."""

    label_confidence: Array | None
    """[n, k], calibrated probability of each of the k most probable labels, where labels do not exclude each other."""

    decisions: Decisions
    would_decide: Decisions | None = None
    """What a policy would have decided that only observes; None where the policy decides."""

    def __len__(self) -> int:
        return len(self.confidence)

    def rows(self, index: Mask) -> "Judgement":
        """What is said about the rows that are True."""
        kept = np.flatnonzero(index).tolist()
        return Judgement(
            usable=self.usable[index],
            predicted=self.predicted[index],
            confidence=self.confidence[index],
            scores={name: score[index] for name, score in self.scores.items()},
            members=self.members[index],
            with_sets=self.with_sets,
            label_confidence=None if self.label_confidence is None else self.label_confidence[index],
            decisions=self.decisions.rows(kept),
            would_decide=None if self.would_decide is None else self.would_decide.rows(kept),
        )

    def replaced(self, rows: Mask, known: "Judgement") -> "Judgement":
        """Return this judgement with the rows that are True taken from `known`, in order."""

        def mixed(mine: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
            result = mine.copy()
            result[rows] = theirs
            return result

        return Judgement(
            usable=mixed(self.usable, known.usable),
            predicted=mixed(self.predicted, known.predicted),
            confidence=mixed(self.confidence, known.confidence),
            scores={name: mixed(score, known.scores[name]) for name, score in self.scores.items()},
            members=mixed(self.members, known.members),
            with_sets=self.with_sets or known.with_sets,
            label_confidence=None
            if self.label_confidence is None or known.label_confidence is None
            else mixed(self.label_confidence, known.label_confidence),
            decisions=self.decisions.replaced(rows, known.decisions),
            would_decide=None
            if self.would_decide is None or known.would_decide is None
            else self.would_decide.replaced(rows, known.would_decide),
        )
