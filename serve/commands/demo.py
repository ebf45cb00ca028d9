"""`demur demo`: replay labelled rows through the service, images also corrupted; count what holding was worth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import rotate

from demur.client.items import Item, NewOutcome
from demur.client.results import Prediction
from demur.client.sync_client import Client
from demur.library.nearest import one_of
from demur.serve.config.task import TaskConfig
from demur.serve.hosts.language.matching import is_right
from demur.traffic.dataset import read_labelled_file
from demur.traffic.file_form import FileForm
from demur.traffic.record import Answer
from demur.traffic.table_file import BadDataFile
from demur.uncertainty.checks import Array

AT_A_TIME = 8
"""Samples of a batch, of which some are under way at once."""


@dataclass(frozen=True, kw_only=True)
class DemoSample:
    part: str
    """A corruption, or the group of the row."""

    input: Any
    label: Answer


@dataclass(frozen=True, kw_only=True)
class DemoLine:
    """One line of the table: what became of the samples of one part."""

    part: str
    rows: int
    answered: int
    accuracy: float
    accuracy_answered: float
    """NaN when nothing was answered."""

    caught: float
    """Share of the errors that were held; NaN without errors."""

    @property
    def held(self) -> int:
        return self.rows - self.answered


def samples(data: Path, seed: int, form: FileForm | None = None) -> list[DemoSample]:
    """The rows of a labelled file as they are; images as nested numbers once more under each corruption."""
    rows = read_labelled_file(data, form)
    if not all(isinstance(value, list) for value in rows.inputs):
        every = zip(rows.inputs, rows.labels, rows.groups, strict=True)
        found = [DemoSample(part=group or ALL, input=value, label=label) for value, label, group in every]
        return sorted(found, key=lambda sample: sample.part)
    rng = np.random.default_rng(seed)
    out = []
    for part, corrupt in CORRUPTIONS.items():
        for value, label in zip(rows.inputs, rows.labels, strict=True):
            try:
                image = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError):
                raise BadDataFile(f"{data}: an image is nested numbers, rows of the same length") from None
            out.append(DemoSample(part=part, input=np.clip(corrupt(image, rng), 0, 1).round(4).tolist(), label=label))
    return out


def of_part(every: Sequence[DemoSample], only: str) -> list[DemoSample]:
    """The samples of one part. Raises `BadDataFile` where there is no such part."""
    if found := [sample for sample in every if sample.part == only]:
        return found
    raise BadDataFile(f"--only: {one_of(only, list(dict.fromkeys(sample.part for sample in every)))}")


def add_noise(image: Array, rng: np.random.Generator) -> Array:
    """Gaussian noise of standard deviation 0.2."""
    return image + rng.normal(0, 0.2, image.shape)


def turn(image: Array, rng: np.random.Generator) -> Array:
    """A turn by 15 to 40 degrees, to either side."""
    angle = rng.uniform(15, 40) * rng.choice([-1, 1])
    return np.asarray(rotate(image, angle, reshape=False, order=1))


def blank_strokes(image: Array, rng: np.random.Generator) -> Array:
    """A band of a quarter of the image, across or down, without ink."""
    side = rng.integers(2)
    width = max(1, round(image.shape[side] / 4))
    start = rng.integers(image.shape[side] - width + 1)
    blanked = image.copy()
    blanked[(slice(None),) * side + (slice(start, start + width),)] = 0
    return blanked


CLEAN = "clean"
ALL = "all"

CORRUPTIONS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    CLEAN: lambda image, _rng: image,
    "noise": add_noise,
    "rotation": turn,
    "blanked strokes": blank_strokes,
}


def replay(
    url: str,
    model: str,
    todo: Sequence[DemoSample],
    *,
    task: TaskConfig,
    outcomes: bool,
    advance: Callable[[int], object],
    key: str | None = None,
) -> list[Prediction]:
    """Send every sample, and afterwards the truth about it if `outcomes`; return the predictions in order."""
    items = [Item(input=sample.input, group=sample.part) for sample in todo]
    predictions = []
    with Client(url, key) as client:
        for prediction in client.predict_iter(model, items, batch_size=AT_A_TIME):
            predictions.append(prediction)
            advance(1)
        if outcomes:
            told = zip(todo, predictions, strict=True)
            client.add_outcomes(
                NewOutcome(id=one.id, label=_truth(sample, one, task), source="demo") for sample, one in told
            )
    return predictions


def table(todo: Sequence[DemoSample], predictions: Sequence[Prediction], task: TaskConfig) -> list[DemoLine]:
    """A line for each part, and one for all of them together, or for all the corrupted ones."""
    parts = np.array([sample.part for sample in todo])
    right = np.array([_is_right(sample, p, task) for p, sample in zip(predictions, todo, strict=True)])
    answered = np.array([p.answered for p in predictions])
    lines = [_line(part, right[parts == part], answered[parts == part]) for part in dict.fromkeys(parts.tolist())]
    if len(lines) == 1:
        return lines
    name, last = ("all corrupted", parts != CLEAN) if (parts == CLEAN).any() else (ALL, parts == parts)
    return [*lines, _line(name, right[last], answered[last])]


def _is_right(sample: DemoSample, prediction: Prediction, task: TaskConfig) -> bool:
    said = prediction.prediction
    if task.kind == "generate":
        return isinstance(said, str) and is_right(said, str(sample.label), task.match)
    return bool(said == sample.label if task.exclusive else said is not None and sorted(said) == sorted(sample.label))


def _truth(sample: DemoSample, prediction: Prediction, task: TaskConfig) -> Answer:
    if task.kind != "generate":
        return sample.label
    return "right" if _is_right(sample, prediction, task) else "wrong"


def _line(part: str, right: np.ndarray, answered: np.ndarray) -> DemoLine:
    return DemoLine(
        part=part,
        rows=len(right),
        answered=int(answered.sum()),
        accuracy=float(right.mean()),
        accuracy_answered=float(right[answered].mean()) if answered.any() else np.nan,
        caught=float((~answered)[~right].mean()) if (~right).any() else np.nan,
    )
