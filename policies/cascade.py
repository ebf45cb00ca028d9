"""Models that are asked in turn until one answers: what comes of a batch in the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from demur.policies.decision import Action
from demur.policies.judgement import Judgement

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, kw_only=True)
class CascadeResult:
    """The last word about each row."""

    judgement: Judgement
    """Of the model that answered or, where none did, of the last one that was asked."""

    by: NDArray[np.intp]
    """[n], which one that was, counted from 0."""

    def of(self, values: Sequence[NDArray[T]]) -> NDArray[T]:
        """[n, ...], from the values [n, ...] of each model, those of the one that had the last word."""
        return np.stack(values)[self.by, np.arange(len(self.by))]


def last_words(judgements: Mapping[str, Judgement]) -> CascadeResult:
    """Join what the models of a cascade, in turn, say about the same rows. A single model has the last word itself.

    Scores that not all of them have are NaN where another model had the word. Of the most probable labels as many are
    told as every model calibrates.
    """
    judged = list(judgements.values())
    by = np.zeros(len(judged[0]), dtype=np.intp)
    for model, judgement in enumerate(judged):
        escalated = np.array([action is Action.ESCALATE for action in judgement.decisions.actions], dtype=bool)
        by = np.where((by == model) & escalated, model + 1, by)
    if len(judged) == 1:
        return CascadeResult(judgement=judged[0], by=by)
    names = list(dict.fromkeys(name for judgement in judged for name in judgement.scores))
    calibrated = [known.shape[1] for judgement in judged if (known := judgement.label_confidence) is not None]
    k = min(calibrated, default=0)
    ended = _alike(judged[0], names, k)
    for model, judgement in enumerate(judged[1:], start=1):
        rows = by == model
        ended = ended.replaced(rows, _alike(judgement, names, k).rows(rows))
    return CascadeResult(judgement=ended, by=by)


def _alike(judgement: Judgement, names: list[str], k: int) -> Judgement:
    undefined, known = np.full(len(judgement), np.nan), judgement.label_confidence
    return replace(
        judgement,
        scores={name: judgement.scores.get(name, undefined) for name in names},
        label_confidence=None if known is None else known[:, :k],
    )
