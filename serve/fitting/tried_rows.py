"""A model on some of its labelled rows before anything is fitted, to see whether it is wired as it was trained."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from demur.audit.metrics.discrimination import roc_auc
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.onnx import OnnxHost
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InputLimits, ModelInput
from demur.serve.fitting.failing_rows import ModelFails, run_each
from demur.serve.fitting.labelled_rows import about_candidates, refusal, rows_refused, truth_of
from demur.serve.fitting.rerun import LoadedModel
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.kinds import check_here
from demur.serve.hosts.trial_process import TrialLimits, answer_with, done_apart
from demur.traffic.dataset import LabelledFile, SpreadRow, read_labelled_file
from demur.traffic.table_file import BadDataFile
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.correctness import QUALITIES
from demur.uncertainty.output import NO_LABEL, Output

ROWS = 200
"""That a model is run on at most: so many tell 50% from 60%, and cost little."""

SECONDS = 15.0
"""After which no further rows are asked about."""

PROCESS_SECONDS = 75.0
"""For all of it: loading the model, reading the file, and the rows."""

AT_A_TIME = 8

MOST_LABELS = 1_000
"""With more labels nobody looks for a better order of them."""

TELLS_APART = 0.75
"""A model whose labels have such a task AUROC is wired well, however seldom its first label is right: where one label
is very frequent, always saying it is hard to beat."""

CLEARLY_MORE = 0.1
"""By which share of the rows another order of the labels has to be better before it is told."""


@dataclass(frozen=True, kw_only=True)
class TriedRows:
    """What came of it."""

    rows: int
    """How many rows the file has."""

    asked: int
    """Rows that were asked about: a random part, the same each time."""

    right: float = 0.0
    """For how many of the rows that were asked the model is right; of a multilabel task the sum of how right it is."""

    always: tuple[str, ...] = ()
    """What would be right most often if it were said of every row."""

    always_right: float = 0.0
    """For how many rows it would."""

    beats_one_label: bool = True
    """Whether the model knows more than one label for all rows: it is right more often, or tells labels apart well."""

    labels: tuple[str, ...] = ()
    """The labels of the task, where they are compared in another order."""

    better: tuple[str, ...] = ()
    """Labels in another order, in which far more rows would be right; empty where none is."""

    better_right: int = 0

    unreadable: int = 0
    """Rows about which nothing could be read from what the model said."""

    why_unreadable: str = ""

    is_table: bool = False
    """Whether an input is a row of columns."""

    in_order: bool = False
    """Whether the model's numbers stand for labels by their order alone."""


def try_rows(
    model: ModelConfig, data: Path, limits: InputLimits, *, checked: bool, most: int = ROWS, seconds: float = SECONDS
) -> TriedRows:
    """Run a model on some labelled rows. `checked`: it has passed its check; else that is made first.

    Raises `BadModel` with a sentence where the rows cannot be read or the model fails on one, and `ProcessEnded`."""
    told = {
        "model": model.model_dump(mode="json"),
        "data": str(data),
        "limits": {"text_characters": limits.text_characters, "image_pixels": limits.image_pixels},
        "checked": checked,
        "most": most,
        "seconds": seconds,
    }
    if model.host.is_given:
        return _tried(told)  # no code of others has a part in it
    return TypeAdapter(TriedRows).validate_python(done_apart(__name__, told, TrialLimits(seconds=PROCESS_SECONDS)))


def _tried(told: Any) -> TriedRows:
    model = ModelConfig.model_validate(told["model"])
    try:
        rows = read_labelled_file(Path(told["data"]), model.file_form)
        truth = truth_of(rows, model.task)
    except BadDataFile as error:
        raise BadModel(str(error)) from None
    if not told["checked"]:
        check_here(model)
    loaded = LoadedModel(model, InputLimits(**told["limits"]), list, checked=True)
    try:
        return _measured(model, loaded, rows, truth, most=told["most"], seconds=told["seconds"])
    finally:
        loaded.close()


def _measured(
    model: ModelConfig, loaded: LoadedModel, rows: LabelledFile, truth: Mask, *, most: int, seconds: float
) -> TriedRows:
    if not loaded.takes_pictures and (refused := list(rows_refused(rows, loaded.read))):
        raise BadModel(refusal(rows, refused))
    chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:most])  # a file may be sorted by its labels
    picked = _rows_at(rows, chosen)
    if loaded.takes_pictures and (refused := list(rows_refused(picked, loaded.read))):
        raise BadModel(refusal(rows, [(int(chosen[at - 1]) + 1, why) for at, why in refused]))
    output = _said(model, loaded, rows, chosen, seconds)
    n = len(output)
    usable = output.usable()
    whys = output.why_unusable()
    lost = np.flatnonzero(~usable)
    if len(lost) and output.unreadable is None:
        raise BadModel(
            f"{rows.path}, row {chosen[lost[0]] + 1}: what the model gives is not a number"
            f" (so it is for {len(lost):,} of {n:,} rows that were tried)"
        )
    tried = _judged(model, output.rows(usable), _rows_at(rows, chosen[:n][usable]), truth[chosen[:n][usable]])
    why = next((f"row {chosen[at] + 1}: {whys[at]}" for at in lost), "")
    return TriedRows(
        rows=len(rows),
        asked=n,
        unreadable=len(lost),
        why_unreadable=why,
        is_table=loaded.takes_tables,
        in_order=_in_order(model, rows),
        **tried,
    )


def _said(
    model: ModelConfig, loaded: LoadedModel, rows: LabelledFile, chosen: NDArray[np.intp], seconds: float
) -> Output:
    """What the model says about the chosen rows, or about the first of them where the time is up before."""
    until = time.monotonic() + seconds
    needs = model.recipe.needs
    batches: list[Output] = []
    for start in range(0, len(chosen), AT_A_TIME):
        numbers = chosen[start : start + AT_A_TIME]
        inputs: list[ModelInput] = [loaded.read(rows.inputs[at]) for at in numbers]
        try:
            output, failing = run_each(lambda some: loaded.run(some, needs), inputs)
        except ModelFails as error:
            raise BadModel(f"{rows.path}, row {numbers[0] + 1}: {error}") from None
        if failing:
            at, why = next(iter(failing.items()))
            raise BadModel(f"{rows.path}, row {numbers[at] + 1}: the model fails on it: {why}")
        batches.append(output)
        if time.monotonic() > until:
            break
    return Output.concatenate(batches)


def _judged(model: ModelConfig, output: Output, rows: LabelledFile, truth: Mask) -> dict[str, Any]:
    """How often the model is right, and how often it would be if it said the same of every row."""
    task = model.task
    if not len(output):
        return {}
    if task.sparse:
        return _judged_sparse(task, output, rows)
    if not task.exclusive:
        quality = QUALITIES[model.right]
        always = _one_set(truth, quality)
        right = float(quality(output.probabilities >= 0.5, truth).sum())
        always_right = float(quality(np.broadcast_to(always, truth.shape), truth).sum())
        return {
            "right": right,
            "always": tuple(task.labels[at] for at in np.flatnonzero(always)),
            "always_right": always_right,
            "beats_one_label": right > always_right or tells_apart(output.probabilities, truth),
        }
    said, holds = output.probabilities.argmax(axis=1), truth.argmax(axis=1)
    counts = truth.sum(axis=0)
    right = int((said == holds).sum())
    better, better_right = _better_order(task.labels, said, holds, right, int(counts.max()))
    return {
        "right": float(right),
        "always": (task.labels[int(counts.argmax())],),
        "always_right": float(counts.max()),
        "beats_one_label": right > int(counts.max()) or tells_apart(output.probabilities, truth),
        "labels": task.labels if better else (),
        "better": better,
        "better_right": better_right,
    }


def _judged_sparse(task: TaskConfig, output: Output, rows: LabelledFile) -> dict[str, Any]:
    """How often the most probable candidate among very many labels holds."""
    output, holds = about_candidates(output, rows.labels, task)
    assert output.slots is not None
    first = np.where(output.slots == NO_LABEL, -1.0, output.probabilities).argmax(axis=1)[:, None]
    named = np.take_along_axis(output.slots, first, axis=1) != NO_LABEL
    told = Counter(one for row in rows.labels for one in ([row] if isinstance(row, str) else row))
    ((label, times),) = told.most_common(1) or [("", 0)]
    right = float((named & np.take_along_axis(holds, first, axis=1)).sum())
    return {"right": right, "always": (label,), "always_right": float(times), "beats_one_label": right > times}


def tells_apart(probabilities: Array, truth: Mask) -> bool:
    """Whether rows of a label mostly have a higher probability of it than other rows; both are [n, C]."""
    if probabilities.shape[1] > MOST_LABELS:
        return False
    areas = [roc_auc(holds, p) for holds, p in zip(truth.T, probabilities.T, strict=True) if 0 < holds.sum() < len(p)]
    return bool(areas) and float(np.nanmean(areas)) >= TELLS_APART


def _one_set(truth: Mask, quality: Any) -> Mask:
    """The set of labels [C] that would be most right if it were said of each row: those that hold for most rows, or
    the set that holds most often."""
    sets, times = np.unique(truth, axis=0, return_counts=True)
    candidates = [truth.mean(axis=0) > 0.5, sets[times.argmax()]]
    return max(candidates, key=lambda one: float(quality(np.broadcast_to(one, truth.shape), truth).sum()))


def _better_order(
    labels: Sequence[str], said: NDArray[np.intp], holds: NDArray[np.intp], right: int, commonest: int
) -> tuple[tuple[str, ...], int]:
    """Return the order of labels in which the numbers of the model would be right most often, and how often; nothing
    where it is not clearly better than the order that there is and than one label for all."""
    from scipy.optimize import linear_sum_assignment  # here, because it is large

    n = len(said)
    if len(labels) > MOST_LABELS:
        return (), 0
    table = np.zeros((len(labels), len(labels)), dtype=np.intp)
    np.add.at(table, (said, holds), 1)
    table = table * (n + 1) + np.eye(len(labels), dtype=np.intp)  # of equally good orders the one that there is
    places, names = linear_sum_assignment(table, maximize=True)
    best = int((table[places, names] // (n + 1)).sum())
    if best < right + CLEARLY_MORE * n or best < commonest + 2 * np.sqrt(n):
        return (), 0
    return tuple(labels[at] for at in names.tolist()), best


def _in_order(model: ModelConfig, rows: LabelledFile) -> bool:
    """Whether nothing but their order says which label each number of the model is for."""
    if model.host.kind in ("sklearn", "classifier"):
        return False
    if isinstance(model.host, OnnxHost):
        from demur.serve.hosts.onnx.class_names import class_names  # here, because onnx may not be installed

        names = class_names(model.host.file)
        return not names or names == list(range(len(names)))
    if not model.host.is_given:
        return True
    first = rows.inputs[0]
    output = first.get("output", first) if isinstance(first, SpreadRow) else first
    said = output if isinstance(output, dict) else {}
    return isinstance(said.get("probabilities", said.get("logits")), list | float | int | str)


def _rows_at(rows: LabelledFile, places: NDArray[np.intp]) -> LabelledFile:
    return LabelledFile(
        path=rows.path,
        sha256=rows.sha256,
        inputs=[rows.inputs[at] for at in places],
        labels=[rows.labels[at] for at in places],
        groups=[rows.groups[at] for at in places],
    )


if __name__ == "__main__":
    answer_with(lambda told: TypeAdapter(TriedRows).dump_python(_tried(told), mode="json"))
