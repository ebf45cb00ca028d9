"""A judged batch as it travels from host to gateway: columns of plain Python values, cheap to send and to read."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.selector import Judgement
from uncertainty.checks import Array
from uncertainty.output import Output

TOP = 5
"""How many of the most probable labels a record keeps."""


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What the gateway needs to know about a batch, as columns of plain Python values. None is undefined."""

    artifact: str
    predictions: list[str | None]
    top_labels: list[list[str]]
    top_probabilities: list[list[float]]
    prediction_sets: list[list[str]]
    scores: dict[str, list[float | None]]
    confidence: list[float | None]
    actions: list[str]
    reasons: list[str]
    model_milliseconds: float
    """Time in the model and the selector, for the whole batch."""


def as_columns(
    artifact: str,
    labels: Sequence[str],
    output: Output,
    judgement: Judgement,
    *,
    model_milliseconds: float,
) -> Decided:
    """Turn arrays into columns: one `tolist` for each, and labels in the place of indices."""
    ranked = np.argsort(-output.probabilities, axis=1, kind="stable")
    top = ranked[:, :TOP]
    known = judgement.predicted >= 0
    probabilities = np.take_along_axis(output.probabilities, top, axis=1).tolist()
    members = np.take_along_axis(judgement.members, ranked, axis=1)
    return Decided(
        artifact=artifact,
        predictions=[labels[i] if i >= 0 else None for i in judgement.predicted.tolist()],
        top_labels=[[labels[i] for i in row] if yes else [] for row, yes in zip(top.tolist(), known, strict=True)],
        top_probabilities=[row if yes else [] for row, yes in zip(probabilities, known, strict=True)],
        prediction_sets=[
            [labels[i] for i in row[inside].tolist()] for row, inside in zip(ranked, members, strict=True)
        ],
        scores={name: _or_none(values) for name, values in judgement.scores.items()},
        confidence=_or_none(judgement.confidence),
        actions=[action.value for action in judgement.decisions.actions],
        reasons=list(judgement.decisions.reasons),
        model_milliseconds=model_milliseconds,
    )


def _or_none(values: Array) -> list[float | None]:
    return [value if defined else None for value, defined in zip(values.tolist(), np.isfinite(values), strict=True)]
