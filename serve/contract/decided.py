"""Judged rows as they travel from host to gateway: columns of plain Python values, cheap to send and to read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from demur.policies.judgement import Judgement
from demur.serve.contract.kept_reply import kept_reply
from demur.traffic.record import Answer, Cost, Reply
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.generation import Outage, Replies
from demur.uncertainty.output import NO_LABEL, Output
from demur.uncertainty.readings import outages_in
from demur.uncertainty.top_k import top_labels

Columns = TypeVar("Columns", "DecidedRows", "ShadowRows")

OTHERS = "(others)"
"""In a set: every label that is not among the candidates."""

TOP = 5
"""How many of the most probable labels a record keeps."""


@dataclass(frozen=True, kw_only=True)
class DecidedRows:
    """What the gateway needs to know about rows that one artifact decided. None is undefined."""

    artifact: str
    predictions: list[Answer | None]
    top_labels: list[list[str]]
    top_probabilities: list[list[float]]
    label_confidences: list[list[float] | None]
    prediction_sets: list[list[str]]
    scores: dict[str, list[float | None]]
    confidence: list[float | None]
    actions: list[str]
    reasons: list[str]
    model_milliseconds: float
    """Time in the model and in the selectors of whoever decided, for the whole batch."""

    costs: list[Cost | None]
    """None where no language model replied."""

    replies: list[Reply | None]
    """What was written, where the task is to write; else None."""

    asks_next: str = ""
    """In a cascade, the model that is asked about rows that are escalated."""

    outages: list[Outage | None] | None = None
    """Why the model could not be asked about a row; None where it could about all of them."""

    def rows(self, index: Sequence[int]) -> "DecidedRows":
        return _picked(self, index)


@dataclass(frozen=True, kw_only=True)
class ShadowRows:
    """What the artifact in the shadow decides about the same rows. None is undefined."""

    artifact: str
    predictions: list[Answer | None]
    prediction_sets: list[list[str]]
    confidence: list[float | None]
    actions: list[str]
    reasons: list[str]

    def rows(self, index: Sequence[int]) -> "ShadowRows":
        return _picked(self, index)


@dataclass(frozen=True, kw_only=True)
class ArtifactShare:
    """The rows of a batch about which one artifact decided. Every row of the batch is in exactly one share."""

    rows: list[int]
    """Where these rows are in the batch."""

    decided: DecidedRows
    shadow: ShadowRows | None = None
    shadow_milliseconds: float = 0.0
    """Time that the shadow took for these rows."""

    def between(self, start: int, stop: int, *, spent: float) -> "ArtifactShare":
        """Those of the rows [start, stop) that are in it, as the share of a batch of these alone, which took `spent`
        milliseconds more."""
        index = [place for place, row in enumerate(self.rows) if start <= row < stop]
        return ArtifactShare(
            rows=[self.rows[place] - start for place in index],
            decided=replace(self.decided.rows(index), model_milliseconds=self.decided.model_milliseconds + spent),
            shadow=None if self.shadow is None else self.shadow.rows(index),
            shadow_milliseconds=self.shadow_milliseconds * len(index) / len(self.rows),
        )


def as_columns(
    artifact: str,
    labels: Sequence[str],
    output: Output,
    judgement: Judgement,
    *,
    exclusive: bool,
    writes: bool = False,
    model_milliseconds: float,
    asks_next: str = "",
    note: str = "",
) -> DecidedRows:
    """Turn arrays into columns: one `tolist` for each, and labels in the place of indices. `note` is added to every
    reason."""
    known = judgement.usable.tolist()
    calibrated = judgement.label_confidence
    k = min(TOP, output.probabilities.shape[1]) if calibrated is None else calibrated.shape[1]
    tops = _tops(output, labels, known, top_labels(np.nan_to_num(output.probabilities), k), calibrated)
    predicted = _named(judgement.predicted, labels, output.slots)
    return DecidedRows(
        artifact=artifact,
        predictions=_answers(known, predicted, exclusive=exclusive),
        top_labels=[top.labels for top in tops],
        top_probabilities=[top.probabilities for top in tops],
        label_confidences=[top.confidence for top in tops],
        prediction_sets=_sets(labels, output, judgement, exclusive=exclusive),
        scores={name: _or_none(values) for name, values in judgement.scores.items()},
        confidence=_or_none(judgement.confidence),
        actions=[action.value for action in judgement.decisions.actions],
        reasons=[f"{reason}; {note}" for reason in judgement.decisions.reasons]
        if note
        else list(judgement.decisions.reasons),
        model_milliseconds=model_milliseconds,
        costs=_costs(output),
        replies=_replies(output) if writes else [None] * len(known),
        asks_next=asks_next,
        outages=_outages(output),
    )


def as_shadow(
    artifact: str,
    labels: Sequence[str],
    output: Output,
    judgement: Judgement,
    *,
    exclusive: bool,
) -> ShadowRows:
    """Turn what the artifact in the shadow decides into columns. Less of it is kept."""
    predicted = _named(judgement.predicted, labels, output.slots)
    return ShadowRows(
        artifact=artifact,
        predictions=_answers(judgement.usable.tolist(), predicted, exclusive=exclusive),
        prediction_sets=_sets(labels, output, judgement, exclusive=exclusive),
        confidence=_or_none(judgement.confidence),
        actions=[action.value for action in judgement.decisions.actions],
        reasons=list(judgement.decisions.reasons),
    )


def _answers(known: Sequence[bool], predicted: Sequence[list[str]], *, exclusive: bool) -> list[Answer | None]:
    return [None if not yes else names[0] if exclusive else names for yes, names in zip(known, predicted, strict=True)]


def _sets(labels: Sequence[str], output: Output, judgement: Judgement, *, exclusive: bool) -> list[list[str]]:
    if exclusive or output.slots is not None:
        return _named(judgement.members, labels, output.slots, order=output.probabilities)
    return _named(judgement.members, labels, None)


class TopOfRow(NamedTuple):
    """The most probable labels of a row."""

    labels: list[str]
    probabilities: list[float]
    confidence: list[float] | None


def _tops(
    output: Output, labels: Sequence[str], known: Sequence[bool], top: NDArray[np.intp], calibrated: Array | None
) -> list[TopOfRow]:
    probabilities = np.take_along_axis(output.probabilities, top, axis=1).tolist()
    sure = [None] * len(known) if calibrated is None else calibrated.tolist()
    if output.slots is None:
        return [
            TopOfRow([labels[i] for i in row], p, c) if yes else TopOfRow([], [], None)
            for yes, row, p, c in zip(known, top.tolist(), probabilities, sure, strict=True)
        ]
    slots = np.take_along_axis(output.slots, top, axis=1)
    found = []
    for yes, row, p, c in zip(known, slots.tolist(), probabilities, sure, strict=True):
        kept = [at for at, label in enumerate(row) if yes and label != NO_LABEL]
        found.append(
            TopOfRow(
                [labels[row[at]] for at in kept],
                [p[at] for at in kept],
                None if c is None or not yes else [c[at] for at in kept],
            )
        )
    return found


def _named(
    members: Mask, labels: Sequence[str], slots: NDArray[np.int32] | None, *, order: Array | None = None
) -> list[list[str]]:
    """The labels of each row's set, in the order of the task, or the most probable first. A column without a label has
    no name; or, where all labels that nobody named share a probability, that of them all."""
    if slots is not None:
        members = members & ((slots != NO_LABEL) | (order is not None and order > 0))
    rows, index = np.nonzero(members)
    if order is not None:
        ranked = np.lexsort((index, -order[rows, index], rows))  # of equals the first one in the order of the task
        index = index[ranked]
    elif slots is not None:
        index = index[np.lexsort((slots[rows, index], rows))]
    found = index if slots is None else slots[rows, index]
    names = [OTHERS if i == NO_LABEL else labels[i] for i in found.tolist()]
    ends = np.cumsum(members.sum(axis=1)).tolist()
    return [names[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _costs(output: Output) -> list[Cost | None]:
    if output.replies is None:
        return [None] * len(output)
    return [_cost(replies) if replies.usage.calls else None for replies in output.replies]


def _cost(replies: Replies) -> Cost:
    cost = Cost(
        prompt_tokens=replies.usage.prompt_tokens,
        completion_tokens=replies.usage.completion_tokens,
        calls=replies.usage.calls,
        seconds=round(replies.usage.seconds, 6),
    )
    if replies.elsewhere:
        cost["elsewhere"] = dict(replies.elsewhere)
    return cost


def _outages(output: Output) -> list[Outage | None] | None:
    outages = outages_in(output)
    return outages if any(outages) else None


def _replies(output: Output) -> list[Reply | None]:
    """None where the model was not heard of."""
    if output.replies is None:
        return [None] * len(output)
    return [
        None if why and not replies.first.text else kept_reply(replies.first)
        for replies, why in zip(output.replies, output.why_unusable(), strict=True)
    ]


def _picked(columns: Columns, index: Sequence[int]) -> Columns:
    """Return some of the rows: lists are columns, and the scores are one column each."""
    changes: dict[str, Any] = {}
    for name, value in vars(columns).items():
        if isinstance(value, list):
            changes[name] = [value[row] for row in index]
        elif isinstance(value, dict):
            changes[name] = {key: [column[row] for row in index] for key, column in value.items()}
    return replace(columns, **changes)


def _or_none(values: Array) -> list[float | None]:
    return [value if defined else None for value, defined in zip(values.tolist(), np.isfinite(values), strict=True)]
