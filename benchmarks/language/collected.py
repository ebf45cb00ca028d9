"""What the sums model says about held-out exercises, everything that scores may ask for, and what that costs."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.language.stored_replies import as_json, from_json
from benchmarks.language.tasks import CHECKPOINT, SEED, Task, label_of
from demur.serve.commands.labelled_rows import truth_about, truth_of
from demur.serve.config.file import ModelConfig
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InputLimits, ModelInput
from demur.serve.contract.model import MoreSamples
from demur.serve.contract.reading.inputs import read_input
from demur.serve.hosts.language.row import one_hot
from demur.serve.hosts.offline import OfflineModel
from demur.traffic.dataset import LabelledFile
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.generation import Replies, as_column
from demur.uncertainty.output import LabelledOutput, Need, Output
from deploy.models.sums.exercises import Exercise

LIMITS = InputLimits(text_characters=10_000, image_pixels=1)
AT_A_TIME = 64
ASKED_ABOUT = 60
"""Exercises of each level whose answers the model is asked to judge itself."""

FIRST: frozenset[Need] = frozenset({"reply", "logprobs", "top_logprobs"})

Advance = Callable[[int], None]
"""Told how many rows more are done."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one exercise, on average."""

    calls: float
    prompt_tokens: float
    completion_tokens: float
    seconds: float
    """Until all were there, divided by their number; whatever else the machine does is in it."""

    cpu_seconds: float
    """Of this process alone."""

    @classmethod
    def of(cls, replies: Sequence[Replies], seconds: Sequence[float]) -> "Cost":
        usages = [one.usage for one in replies]
        return cls(
            calls=float(np.mean([usage.calls for usage in usages])),
            prompt_tokens=float(np.mean([usage.prompt_tokens for usage in usages])),
            completion_tokens=float(np.mean([usage.completion_tokens for usage in usages])),
            seconds=seconds[0] / len(replies),
            cpu_seconds=seconds[1] / len(replies),
        )

    @property
    def tokens(self) -> float:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, kw_only=True, eq=False)
class Collected:
    """`n` exercises of one task. Rows come level after level."""

    task: Task
    levels: NDArray[np.intp]
    """[n]"""

    labels: Sequence[str | list[str]]
    """[n], as in `label_of`."""

    rows: LabelledOutput
    """With the first reply and the samples; probabilities are those of `reply`."""

    told: Mapping[str, Array] = field(default_factory=dict)
    """By `prompt.probabilities`, the probabilities [n, C] that the model gives to the labels themselves."""

    asked: Mapping[str, Sequence[Replies]] = field(default_factory=dict)
    """By `rating` and `stated`, replies about the rows `judged`."""

    judged: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    costs: Mapping[str, Cost] = field(default_factory=dict)
    """By what is asked for: `first`, `samples` (the first reply included), `full_label`, `rating`, ..."""

    same_reply: float = 1.0
    """Share of the rows whose first reply is the same in both passes."""

    def __len__(self) -> int:
        return len(self.levels)

    @cached_property
    def config(self) -> TaskConfig:
        return self.task.model().task

    def telling(self, by: str) -> LabelledOutput:
        """The same rows with the probabilities that the model gives to the labels themselves."""
        shares = self.told[by]
        output = replace(self.rows.output, probabilities=shares, logits=np.log(np.maximum(shares, 1e-12)))
        return replace(self.rows, output=output)


def collected(task: Task, folder: Path, *, each: int, advance: Advance) -> Collected:
    """Run the model, or read what it said before: the same checkpoint about the same exercises."""
    exercises = task.exercises(each)
    path, facts = folder / f"{task.name}.json", _facts(task, each)
    if path.exists():
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["facts"] == facts:
            advance(n_rows(task, each))
            return _read(task, exercises, stored)
    stored = {"facts": facts, **_run(task, exercises, advance)}
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored), encoding="utf-8")
    return _read(task, exercises, stored)


def n_rows(task: Task, each: int) -> int:
    """How many rows are run in all."""
    exercises = task.exercises(each)
    return len(exercises) * (2 + len(task.told)) + len(_self_asked(task)) * len(_of_levels(exercises, ASKED_ABOUT))


def inputs_of(exercises: Sequence[Exercise], model: OfflineModel) -> list[ModelInput]:
    return [read_input(exercise.input, model.spec, LIMITS) for exercise in exercises]


def in_chunks(
    model: OfflineModel,
    inputs: Sequence[ModelInput],
    needs: frozenset[Need],
    advance: Advance,
    more: MoreSamples | None = None,
) -> tuple[Output, tuple[float, float]]:
    """Return what the model says, and the seconds that it took by the clock and of the processor."""
    batches, began = [], (time.perf_counter(), time.process_time())
    for start in range(0, len(inputs), AT_A_TIME):
        chunk = inputs[start : start + AT_A_TIME]
        batches.append(model.run(chunk, needs, more=more))
        advance(len(chunk))
    return Output.concatenate(batches), (time.perf_counter() - began[0], time.process_time() - began[1])


def labelled(task: Task, exercises: Sequence[Exercise], output: Output) -> LabelledOutput:
    config = task.model().task
    rows = LabelledFile(
        path=Path(task.name),
        inputs=[exercise.input for exercise in exercises],
        labels=[label_of(exercise) for exercise in exercises],
        groups=[None] * len(exercises),
        sha256="",
    )
    truth: Mask = truth_about(output, rows, truth_of(rows, config), config)
    return LabelledOutput(output=output, truth=truth, exclusive=config.exclusive)


def _run(task: Task, exercises: Sequence[Exercise], advance: Advance) -> dict[str, Any]:
    few = [exercises[at] for at in _of_levels(exercises, ASKED_ABOUT)]
    plain = task.model()
    found: dict[str, Any] = {"seconds": {}}

    def ask(name: str, config: ModelConfig, about: Sequence[Exercise], needs: frozenset[Need]) -> Output:
        model = OfflineModel(config)
        try:
            output, found["seconds"][name] = in_chunks(model, inputs_of(about, model), needs, advance)
        finally:
            model.close()
        return output

    for name, needs in (("first", FIRST), ("samples", frozenset[Need]({"samples"}))):
        output = ask(name, plain, exercises, needs)
        found[name] = [as_json(replies) for replies in output.replies]  # type: ignore[union-attr]
        found["unreadable"] = output.unreadable.tolist()  # type: ignore[union-attr]
    for by in task.told:
        telling = task.model(scores=["softmax_response"], prompt={"probabilities": by})
        found[by] = ask(by, telling, exercises, frozenset({"probabilities"})).probabilities.tolist()
    for need in _self_asked(task):
        output = ask(need, plain, few, frozenset[Need]({need}))
        found[need] = [as_json(replies) for replies in output.replies]  # type: ignore[union-attr]
    return found


def _read(task: Task, exercises: Sequence[Exercise], stored: dict[str, Any]) -> Collected:
    first, sampled = ([from_json(told) for told in stored[name]] for name in ("first", "samples"))
    merged = [replace(one, samples=other.samples) for one, other in zip(first, sampled, strict=True)]
    width = len(task.model().task.labels)
    unreadable = np.array(stored["unreadable"], dtype=object)
    fixed = np.array([1.0, 0.0]) if task.settings["task"]["kind"] == "generate" else None
    probabilities = np.array([one_hot(one.said, width) if fixed is None else fixed for one in merged])
    output = Output(
        logits=np.log(np.maximum(probabilities, 1e-12)),
        probabilities=probabilities,
        replies=as_column(merged),
        unreadable=unreadable,
    )
    seconds = stored["seconds"]
    costs = {name: Cost.of(replies, seconds[name]) for name, replies in (("first", first), ("samples", sampled))}
    for by in task.told:  # one reading of the prompt, and nothing written
        costs[by] = Cost(
            calls=1,
            prompt_tokens=costs["first"].prompt_tokens,
            completion_tokens=0,
            seconds=seconds[by][0] / len(exercises),
            cpu_seconds=seconds[by][1] / len(exercises),
        )
    asked: dict[str, list[Replies]] = {need: [from_json(told) for told in stored[need]] for need in _self_asked(task)}
    return Collected(
        task=task,
        levels=np.array([exercise.level for exercise in exercises]),
        labels=[label_of(exercise) for exercise in exercises],
        rows=labelled(task, exercises, output),
        told={by: np.array(stored[by]) for by in task.told},
        asked=asked,
        judged=np.array(_of_levels(exercises, ASKED_ABOUT), dtype=np.intp),
        costs=costs | {need: Cost.of(replies, seconds[need]) for need, replies in asked.items()},
        same_reply=float(np.mean([a.first.text == b.first.text for a, b in zip(first, sampled, strict=True)])),
    )


def _self_asked(task: Task) -> list[Need]:
    return ["rating"] if task.settings["task"]["kind"] == "generate" else ["rating", "stated"]


def _of_levels(exercises: Sequence[Exercise], each: int) -> list[int]:
    """The places of the first ones of each level."""
    seen: dict[int, int] = {}
    found = []
    for at, exercise in enumerate(exercises):
        seen[exercise.level] = seen.get(exercise.level, 0) + 1
        if seen[exercise.level] <= each:
            found.append(at)
    return found


def _facts(task: Task, each: int) -> dict[str, Any]:
    """What makes stored replies those of this task."""
    weights = (CHECKPOINT / "model.safetensors").read_bytes()
    plain = task.model()
    return {
        "each": each,
        "seed": SEED,
        "checkpoint": hashlib.sha256(weights).hexdigest(),
        "samples": plain.samples.model_dump(mode="json"),
        "told": list(task.told),
        "asked_about": ASKED_ABOUT,
    }
