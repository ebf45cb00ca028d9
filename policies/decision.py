"""What may be decided about a prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from uncertainty.checks import Mask


class Action(StrEnum):
    ANSWER = "answer"  # sure enough: the caller may rely on it
    REVIEW = "review"  # held, and a person is asked
    ABSTAIN = "abstain"  # held, and nobody is asked


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """One action and one readable reason for each row of a batch."""

    actions: tuple[Action, ...]
    reasons: tuple[str, ...]

    @classmethod
    def where(cls, answered: Mask, *, reasons: Sequence[str], otherwise: Action = Action.REVIEW) -> "Decisions":
        """Answer the rows that are True and hold the others as `otherwise`."""
        return cls(actions=tuple(Action.ANSWER if yes else otherwise for yes in answered), reasons=tuple(reasons))

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def answered(self) -> Mask:
        return np.array([action is Action.ANSWER for action in self.actions], dtype=bool)
