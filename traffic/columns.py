"""Predictions that were decided together, in columns. A row becomes an object where somebody asks for it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from demur.traffic.record import Answer, Cost, Entry, KeyUse, Record, Reply


@dataclass(kw_only=True, slots=True)
class RecordColumns:
    """Records of one model that one artifact decided at one time, with their inputs: lists are columns, [n] each.

    Each stands for an `Entry` without a shadow's decision, whose record has no steps of a cascade.
    """

    model: str
    artifact: str
    created_at: datetime
    ids: list[UUID]
    groups: list[str | None]
    clusters: list[str | None]
    predictions: list[Answer | None]
    top_labels: list[list[str]]
    top_probabilities: list[list[float]]
    label_confidences: list[list[float] | None]
    prediction_sets: list[list[str]]
    scores: dict[str, list[float | None]]
    """[n] for each score."""

    confidence: list[float | None]
    actions: list[str]
    reasons: list[str]
    label_probabilities: list[float]
    queued: list[float]
    """Milliseconds for which each waited for its model."""

    model_milliseconds: float
    """Time in the model, for all of them together."""

    costs: list[Cost | None]
    replies: list[Reply | None]
    inputs: list[Any]
    outputs: list[Any]
    """What a model said that runs elsewhere; None where demur asked the model."""

    input_expires_at: datetime | None
    keys: list[KeyUse | None]
    """The use of an Idempotency-Key by each."""

    def __len__(self) -> int:
        return len(self.ids)

    def timings(self, row: int) -> dict[str, float]:
        """Milliseconds by stage."""
        return {"queued": self.queued[row], "model": self.model_milliseconds}

    def record(self, row: int) -> Record:
        """One of them as an object."""
        return Record(
            id=self.ids[row],
            created_at=self.created_at,
            model=self.model,
            artifact=self.artifact,
            group=self.groups[row],
            cluster=self.clusters[row],
            prediction=self.predictions[row],
            top_labels=self.top_labels[row],
            top_probabilities=self.top_probabilities[row],
            label_confidence=self.label_confidences[row],
            prediction_set=self.prediction_sets[row],
            scores={name: values[row] for name, values in self.scores.items()},
            confidence=self.confidence[row],
            action=self.actions[row],
            reason=self.reasons[row],
            label_probability=self.label_probabilities[row],
            timings=self.timings(row),
            cost=self.costs[row],
            reply=self.replies[row],
        )

    def entry(self, row: int) -> Entry:
        """One of them as it is written where rows are written one by one."""
        return Entry(
            record=self.record(row),
            input=self.inputs[row],
            output=self.outputs[row],
            input_expires_at=self.input_expires_at,
            key=self.keys[row],
        )

    def entries(self) -> list[Entry]:
        """All of them as they are written where rows are written one by one."""
        return [self.entry(row) for row in range(len(self))]
