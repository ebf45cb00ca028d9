"""Scores that repeat what the model says of itself (MADE A.4; GAP 4.1). Nothing is fitted.

They are *self-reported*: a model can be sure in words and wrong. [n] float64 in [0, 1], higher when less sure, NaN
where the model stated nothing, or nothing clear.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from demur.uncertainty.checks import Array, InvalidInput
from demur.uncertainty.generation import Replies
from demur.uncertainty.label_sets import mean_over_predicted_labels
from demur.uncertainty.output import LabelledOutput, Need, Output
from demur.uncertainty.readings import named_in, per_row, predicted_in
from demur.uncertainty.self_report import self_verbalised


@dataclass(frozen=True, kw_only=True)
class StatedScore:
    """What the model says of its own answer."""

    self_reported: ClassVar[bool] = True

    def fit(self, rows: LabelledOutput, quality: Array) -> Self:  # noqa: ARG002 - nothing to learn
        return self


@dataclass(frozen=True, kw_only=True)
class SelfVerbalised(StatedScore):
    """`self_verbalised`: 1 - stated confidence, averaged over the predicted labels; NaN where none is predicted.

    Labels that nothing was stated of are left out: under a tree they are those above the ones that were.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"stated"})

    def of(self, output: Output) -> Array:
        return per_row(output, lambda replies, row: _mean_unsure(replies, output.probabilities[row]))


@dataclass(frozen=True, kw_only=True)
class Rating(StatedScore):
    """`rating`: 1 - the rating that the model gave to its answer when it was asked for one."""

    needs: ClassVar[frozenset[Need]] = frozenset({"rating"})

    def of(self, output: Output) -> Array:
        return per_row(output, lambda replies, _: _unrated(replies))


def _mean_unsure(replies: Replies, probabilities: Array) -> float:
    if not replies.stated:
        raise InvalidInput("the model stated nothing")
    unsure = self_verbalised(replies.stated)
    predicted = named_in(predicted_in(replies, probabilities))
    return mean_over_predicted_labels(unsure, [label for label in predicted if label in unsure])


def _unrated(replies: Replies) -> float:
    if replies.rating is None:
        raise InvalidInput("the model gave no rating")
    return self_verbalised({"answer": replies.rating})["answer"]


STATED_SCORES: dict[str, type[SelfVerbalised | Rating]] = {"self_verbalised": SelfVerbalised, "rating": Rating}
