"""`demur demo`: replay labelled rows through the service, images also corrupted; count what holding was worth."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
from scipy.ndimage import rotate

from demur.serve.config.task import TaskConfig
from demur.serve.hosts.language.matching import is_right
from demur.traffic.dataset import read_labelled_file
from demur.traffic.file_form import FileForm
from demur.traffic.record import Answer
from demur.traffic.table_file import BadDataFile
from demur.uncertainty.checks import Array

AT_A_TIME = 16

PAUSES = (0.1, 0.5, 2.0)
"""Seconds before a request is sent again whose connection broke."""


class ServiceUnreachable(RuntimeError):
    """The service does not answer. Start it with `make run` or `demur up`."""


class DemoRefused(RuntimeError):
    """The service answered a request of the demo with an error; the message is the service's."""


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


async def replay(
    url: str,
    model: str,
    todo: Sequence[DemoSample],
    *,
    task: TaskConfig,
    outcomes: bool,
    advance: Callable[[], None],
    key: str | None = None,
) -> list[dict[str, Any]]:
    """Send every sample, and afterwards the truth about it if `outcomes`; return the predictions in order."""
    gate = asyncio.Semaphore(AT_A_TIME)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:

        async def one(sample: DemoSample) -> dict[str, Any]:
            async with gate:
                body = {"model": model, "input": sample.input, "group": sample.part}
                prediction = await _post(client, "/v1/predict", body)
                if outcomes:
                    truth = {"label": _truth(sample, prediction, task), "source": "demo"}
                    await _post(client, f"/v1/predictions/{prediction['id']}/outcome", truth)
                advance()
                return prediction

        try:
            return await asyncio.gather(*(one(sample) for sample in todo))
        except httpx.TransportError as error:
            raise ServiceUnreachable(
                f"no service answers at {url} ({type(error).__name__}); start it with `make run` in another terminal"
            ) from None


def table(todo: Sequence[DemoSample], predictions: Sequence[dict[str, Any]], task: TaskConfig) -> list[DemoLine]:
    """A line for each part, and one for all of them together, or for all the corrupted ones."""
    parts = np.array([sample.part for sample in todo])
    right = np.array([_is_right(sample, p, task) for p, sample in zip(predictions, todo, strict=True)])
    answered = np.array([p["action"] == "answer" for p in predictions])
    lines = [_line(part, right[parts == part], answered[parts == part]) for part in dict.fromkeys(parts.tolist())]
    if len(lines) == 1:
        return lines
    name, last = ("all corrupted", parts != CLEAN) if (parts == CLEAN).any() else (ALL, parts == parts)
    return [*lines, _line(name, right[last], answered[last])]


def _is_right(sample: DemoSample, prediction: dict[str, Any], task: TaskConfig) -> bool:
    said = prediction["prediction"]
    if task.kind == "generate":
        return said is not None and is_right(said, str(sample.label), task.match)
    return bool(said == sample.label if task.exclusive else said is not None and sorted(said) == sorted(sample.label))


def _truth(sample: DemoSample, prediction: dict[str, Any], task: TaskConfig) -> Answer:
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


async def _post(client: httpx.AsyncClient, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Ask, and ask again where the connection breaks: the service may close one just when it is used again. The key
    makes a second try of the same prediction safe."""
    key = {"Idempotency-Key": str(uuid4())}
    for pause in PAUSES:
        try:
            return _answer(await client.post(path, json=body, headers=key))
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            await asyncio.sleep(pause)
    return _answer(await client.post(path, json=body, headers=key))


def _answer(response: httpx.Response) -> dict[str, Any]:
    if response.is_error:
        raise DemoRefused(f"the service answered {response.status_code}: {response.text[:500]}")
    body: dict[str, Any] = response.json()
    return body
