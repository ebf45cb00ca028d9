"""What comes out: a tensor for each thing that is known of a prediction, one row for each prediction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.serve.config.file import ModelConfig
from demur.serve.contract import wire
from demur.serve.contract.decided import TOP
from demur.serve.contract.inference_protocol.tensors import NUMPY, Datatype, Tensor
from demur.serve.web.inference_protocol.body import Scalar
from demur.traffic.record import Record

Told = Mapping[str, Any]
"""What /v1/predict would say of the record."""


@dataclass(frozen=True, kw_only=True)
class OutputTensor:
    """A tensor of a model: its metadata, and what is in one of its rows."""

    name: str
    datatype: Datatype
    width: int | None = None
    """How many elements a row has; None where it is one."""

    row: Callable[[Record, Told], Any]

    @property
    def shape(self) -> list[int]:
        return [-1] if self.width is None else [-1, self.width]

    def tensor(self, records: Sequence[Record], told: Sequence[Told]) -> Tensor:
        rows = [self.row(record, one) for record, one in zip(records, told, strict=True)]
        if self.width is not None:
            rows = [element for row in rows for element in _padded(row, self.width, self.datatype)]
        shape = (len(records),) if self.width is None else (len(records), self.width)
        if self.datatype == "BYTES":
            return Tensor(self.name, "BYTES", shape, [_as_bytes(element) for element in rows])
        values = np.array(rows, dtype=NUMPY[self.datatype]).reshape(shape)  # None becomes NaN
        return Tensor(self.name, self.datatype, shape, values)


def outputs_of(models: Sequence[ModelConfig]) -> dict[str, OutputTensor]:
    """What can be asked for of a model, by name; `models` are the model and those that are asked after it."""
    task = models[0].task
    outputs = [
        OutputTensor(name="prediction", datatype="BYTES", row=lambda _record, told: told["prediction"]),
        OutputTensor(name="confidence", datatype="FP64", row=lambda record, _told: record.confidence),
        OutputTensor(name="action", datatype="BYTES", row=lambda record, _told: record.action),
        OutputTensor(name="abstained", datatype="BOOL", row=lambda _record, told: told["abstained"]),
        OutputTensor(name="reason", datatype="BYTES", row=lambda record, _told: record.reason),
        OutputTensor(name="id", datatype="BYTES", row=lambda _record, told: told["id"]),
        OutputTensor(name="artifact", datatype="BYTES", row=lambda record, _told: record.artifact),
    ]
    if not task.writes:
        top = min(TOP, len(task.labels))
        outputs += [
            OutputTensor(name="prediction_set", datatype="BYTES", row=lambda _record, told: told["prediction_set"]),
            OutputTensor(name="top_labels", datatype="BYTES", width=top, row=lambda record, _told: record.top_labels),
            OutputTensor(
                name="top_probabilities", datatype="FP64", width=top, row=lambda record, _told: record.top_probabilities
            ),
        ]
    if not task.exclusive:
        outputs.append(
            OutputTensor(name="label_confidence", datatype="BYTES", row=lambda _record, told: told["label_confidence"])
        )
    scores = dict.fromkeys(name for model in models for name in model.recorded_scores)
    outputs += [_score(name) for name in scores]
    return {output.name: output for output in outputs}


def parameters_of(records: Sequence[Record], model: str) -> dict[str, Scalar]:
    """The decisions again, where they are seen without opening a tensor. A parameter is a scalar. Where another model
    answered in the place of the one that was asked for, it is named."""
    others = any(record.model != model for record in records)
    if len(records) > 1:
        return {
            **({"models": wire.dump([record.model for record in records]).decode()} if others else {}),
            "ids": wire.dump([str(record.id) for record in records]).decode(),
            "actions": wire.dump([record.action for record in records]).decode(),
            "confidences": wire.dump([record.confidence for record in records]).decode(),
        }
    (record,) = records
    known = {} if record.confidence is None else {"confidence": record.confidence}
    return {
        "id": str(record.id),
        "action": str(record.action),
        "abstained": record.action != "answer",
        **known,
        "reason": record.reason,
        **({"model": record.model} if others else {}),
    }


def version_of(records: Sequence[Record]) -> str | None:
    """The artifact that decided; None where it was not one for all rows."""
    artifacts = {record.artifact for record in records}
    return artifacts.pop() if len(artifacts) == 1 else None


def _score(name: str) -> OutputTensor:
    return OutputTensor(name=f"score.{name}", datatype="FP64", row=lambda record, _told: record.scores.get(name))


def _padded(row: Sequence[Any], width: int, datatype: str) -> list[Any]:
    nothing = "" if datatype == "BYTES" else None
    return [*row[:width], *[nothing] * (width - len(row))]


def _as_bytes(element: Any) -> bytes:
    """Texts as they are, nothing as an empty one, everything else as JSON."""
    if element is None:
        return b""
    return element.encode() if isinstance(element, str) else wire.dump(element)
