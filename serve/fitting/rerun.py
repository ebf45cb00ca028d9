"""Configured models, run again on inputs of the past, and the artifacts that are to judge their output."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from demur.audit.metrics.top_k import LabelRows
from demur.calibration_store.artifact import Artifact, ModelIdentity
from demur.calibration_store.store import ArtifactStore
from demur.policies.cascade import last_words
from demur.policies.judgement import Judgement
from demur.serve.config.file import Config, ModelConfig
from demur.serve.config.hosts.given import GivenHost
from demur.serve.config.hosts.python import PythonHost
from demur.serve.config.hosts.remote import RemoteHost
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import MOST_PIXELS, InputLimits, InvalidRequest, ModelInput, spec_of
from demur.serve.contract.reading.given import GivenReader
from demur.serve.contract.reading.inputs import read_input
from demur.serve.contract.reading.spread_rows import gathered
from demur.serve.fitting.failing_rows import ModelFails, ModelHangs, run_each
from demur.serve.fitting.labelled_rows import about_candidates
from demur.serve.hosts.asked_as_fitted import as_fitted, check_same_way
from demur.serve.hosts.identity import identity_of
from demur.serve.hosts.kinds import check_model
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.language.reviewed import reviewed_of
from demur.serve.hosts.offline import NotInTime, OfflineModel
from demur.traffic.record import Answer
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.correctness import QUALITIES
from demur.uncertainty.output import NO_LABEL, Need, Output
from demur.uncertainty.readings import outages_in
from demur.uncertainty.top_k import top_labels

ROWS_AT_A_TIME = 64

FIRST_SECONDS = 60.0
"""That the first row may take at least: some models prepare themselves with it."""

PAUSES_SECONDS = (5.0, 20.0, 60.0)
"""Before each further try, where an endpoint is away."""

Progress = Callable[[int, int], None]
"""Told how many rows are done, of how many."""

Read = dict[str, ModelInput]
"""An input as each model takes it, by the model's name."""


class NobodyReplied(RuntimeError):
    """The endpoint of a model is away, and was when it was tried again. Start again when it answers."""


class LoadedModel:
    """A model with its weights, outside of the service."""

    def __init__(self, model: ModelConfig, limits: InputLimits, reviewed: Reviewed, *, checked: bool = False) -> None:
        """`checked`: the model has passed its check, which takes a process of its own, and somebody waits to see
        whether it can be run: an endpoint that is away is not asked again."""
        self._limits = limits
        self._pauses = () if checked else PAUSES_SECONDS
        if not checked:
            check_model(model)
        self._given = GivenReader(model.host, model.task, limits) if isinstance(model.host, GivenHost) else None
        self._model = OfflineModel(model, reviewed=reviewed)
        self._host = model.host
        self._seed = model.calibration.seed
        self._comes_back = model.host.is_endpoint or model.host.is_language or model.host.is_given
        """What is code of others has to show with one row that it comes back at all: a batch may take much longer."""

        self._config = model
        if not checked:
            _ = self.identity  # of the files as they are now
        self._sow()

    @cached_property
    def identity(self) -> ModelIdentity:
        """What an artifact is bound to."""
        return identity_of(self._config)

    @property
    def takes_pictures(self) -> bool:
        """Whether an input may be a picture, which takes long to be read."""
        return self._given is None and self._model.spec.takes_pictures

    @property
    def takes_tables(self) -> bool:
        """Whether an input is a row of columns."""
        return self._given is None and self._model.spec.kind == "table"

    def read(self, value: Any) -> ModelInput:
        """The input as the model takes it; raises `InvalidRequest` for one that it does not take."""
        if self._given:
            return self._given.read(self._given.gathered(value))
        return read_input(gathered(value, self._model.spec), self._model.spec, self._limits)

    def run(
        self, inputs: Sequence[ModelInput], needs: frozenset[Need], *, without: frozenset[str] = frozenset()
    ) -> Output:
        """What the model says about at least one input. `without` names parameters that an endpoint is not sent.

        Inputs about which an endpoint could not be asked are tried again, after pauses. Raises `NobodyReplied` where
        that does not help, and `ModelHangs` where the model takes longer than if it were asked about one after another.
        """
        if not self._comes_back:
            self._asked(inputs[:1], needs, without, least=FIRST_SECONDS)
            self._comes_back = True
            self._sow()
        output = self._asked(inputs, needs, without)
        for pause in self._pauses:
            outages = outages_in(output)
            away = [at for at, outage in enumerate(outages) if outage]
            if not any(outage and outage.passes for outage in outages):
                break
            time.sleep(pause)  # nobody waits for a single reply here, and an outage says nothing of the input
            again = self._asked([inputs[at] for at in away], needs, without)
            output = _put_in(output, away, again)
        if outage := next(filter(None, outages_in(output)), None):
            n = sum(outage is not None for outage in outages_in(output))
            raise NobodyReplied(f"{outage.why}; {n} of {len(inputs)} inputs got no reply, so start again later")
        return output

    def _asked(
        self, inputs: Sequence[ModelInput], needs: frozenset[Need], without: frozenset[str], least: float = 0.0
    ) -> Output:
        seconds = max(least, len(inputs) * self._host.timeout_seconds)
        try:
            return self._model.run(inputs, needs, without=without, seconds=seconds)
        except NotInTime as error:
            raise ModelHangs(
                f"{error} about {len(inputs)} row(s); look what it waits for, or set host.timeout_seconds higher if it"
                " only takes longer"
            ) from None

    def _sow(self) -> None:
        """Let dropout passes begin alike."""
        if torch := sys.modules.get("torch"):
            torch.manual_seed(self._seed)

    def close(self) -> None:
        """Let go of what the model keeps open."""
        self._model.close()


def _put_in(output: Output, places: Sequence[int], again: Output) -> Output:
    """The output with other rows in these places."""
    kept = np.setdiff1d(np.arange(len(output)), places)
    order = np.argsort(np.concatenate([kept, np.asarray(places, dtype=np.intp)]))
    return Output.concatenate([output.rows(kept), again]).rows(order)


@contextmanager
def opened_models(config: Config, models: Mapping[str, ModelConfig]) -> Iterator[dict[str, LoadedModel]]:
    """Models by name, with their weights, for as long as this is open."""
    loaded = loaded_models(config, models)
    try:
        yield loaded
    finally:
        for model in loaded.values():
            model.close()


def loaded_models(config: Config, models: Mapping[str, ModelConfig]) -> dict[str, LoadedModel]:
    """Models by name, with their weights. What was recorded when the pictures of a request might have more pixels can
    still be read."""
    limits = limits_of_past(config)
    return {name: LoadedModel(model, limits, reviewed_of(config, name)) for name, model in models.items()}


def limits_of_past(config: Config) -> InputLimits:
    """Limits for inputs that were recorded, when a picture might perhaps have more pixels than now."""
    return InputLimits(
        text_characters=config.limits.text_characters, image_pixels=config.limits.image_pixels or MOST_PIXELS
    )


def row_reader(config: Config, model: ModelConfig) -> Callable[[Any], ModelInput] | None:
    """Return what reads an input of a file as `LoadedModel.read` does, without the model; None where only the model
    says what it takes."""
    limits = limits_of_past(config)
    if isinstance(model.host, GivenHost):
        given = GivenReader(model.host, model.task, limits)
        return lambda value: given.read(given.gathered(value))
    told = model.host.input if isinstance(model.host, PythonHost | RemoteHost) else None
    if told is None or told.kind == "image" or (told.kind == "table" and not told.columns):
        return None  # pictures take long to be read, and are when the model is fitted
    spec = spec_of(told)
    return lambda value: read_input(gathered(value, spec), spec, limits)


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """What an artifact makes of a batch."""

    artifact: str
    judgement: Judgement
    """Of the model that has the last word about each row."""

    output: Output
    """Of that model, as far as it says which labels are probable, and what was written."""

    right: str
    """Which of `QUALITIES` says how right a prediction was."""

    def quality(self, truth: Mask) -> Array:
        """How right each prediction was [n], 0 to 1, by what holds [n, C]."""
        return QUALITIES[self.right](self.judgement.predicted, truth)

    def quality_by_name(self, labels: Sequence[Answer], task: TaskConfig) -> Array:
        """How right each prediction of a sparse task was [n], 0 to 1, by the labels that hold for each row."""
        output, truth = about_candidates(self.output, labels, task)
        more = output.probabilities.shape[1] - self.judgement.predicted.shape[1]
        predicted = np.pad(self.judgement.predicted, ((0, 0), (0, more)))
        return QUALITIES[self.right](predicted, truth)

    def holding(self, labels: Sequence[Answer], truth: Mask, task: TaskConfig) -> tuple[Mask, Mask, Mask]:
        """The labels of the set, the predicted ones, and those that hold, [n, C] each. `truth` [n, C] is read where the
        task is not sparse."""
        if not task.sparse:
            return self.judgement.members, self.judgement.predicted, truth
        _, holds = about_candidates(self.output, labels, task)
        more = ((0, 0), (0, holds.shape[1] - self.judgement.members.shape[1]))
        return np.pad(self.judgement.members, more), np.pad(self.judgement.predicted, more), holds

    def label_rows(self, labels: Sequence[Answer], truth: Mask, task: TaskConfig) -> LabelRows | None:
        """The most probable labels of each row, and which hold; None where labels exclude each other. `truth` [n, C] is
        read where the task is not sparse."""
        calibrated = self.judgement.label_confidence
        if calibrated is None:
            return None
        output, holds = about_candidates(self.output, labels, task) if task.sparse else (self.output, truth)
        first = top_labels(np.nan_to_num(output.probabilities), calibrated.shape[1])
        named = np.ones(first.shape, dtype=bool)
        if output.slots is not None:
            named = np.take_along_axis(output.slots, first, axis=1) != NO_LABEL
        return LabelRows(
            calibrated=np.where(named, calibrated, np.nan),
            hits=named & np.take_along_axis(holds, first, axis=1),
            right=holds.sum(axis=1).astype(np.float64),
            answered=self.judgement.decisions.answered,
        )


class Rerun:
    """A model and those of its cascade, with artifacts that were fitted for exactly them.

    All artifacts judge one and the same output. Every model of a cascade is run on every input.
    """

    def __init__(self, config: Config, name: str, artifacts: Sequence[str]) -> None:
        model = config.model(name)
        store = ArtifactStore(config.artifacts)
        self.task = model.task
        self._name, self._right = name, model.right
        self.artifacts = list(artifacts)
        self._artifacts = [store.load(name, artifact) for artifact in artifacts]
        asked = dict.fromkeys([name, *(step for artifact in self._artifacts for step in artifact.further)])
        self._models = loaded_models(config, {step: config.model(step) for step in asked})
        self._needs = {step: self._needed_of(step) for step in asked}
        for artifact in self._artifacts:
            for step in (name, *artifact.further):
                artifact.check_fits(self._models[step].identity, step)
        self._without = {step: self._left_out_of(step) for step in asked}

    @property
    def promises(self) -> Sequence[Mapping[str, Any]]:
        """What the first artifact promises about the model."""
        made = self._artifacts[0].manifest.get("promises", [])
        return [one for one in made if one.get("model", self._name) == self._name]

    def read(self, value: Any) -> Read:
        """The input as each model takes it; raises `InvalidRequest` for one that some model does not take."""
        return {name: model.read(value) for name, model in self._models.items()}

    def read_if_possible(self, value: Any) -> Read | None:
        """Read an input as `read` does; None for one that is not taken any more."""
        try:
            return self.read(value)
        except InvalidRequest:
            return None

    def judge(self, inputs: Sequence[Read], groups: Sequence[str | None]) -> list[ReplayResult]:
        """What each artifact decides about at least one input."""
        outputs = {name: self._output_of(name, [read[name] for read in inputs]) for name in self._models}
        return [self._judged(artifact, outputs, groups) for artifact in self._artifacts]

    def _output_of(self, step: str, inputs: Sequence[ModelInput]) -> Output:
        """What a model says about each input. Raises `ModelFails`."""
        model, needs, without = self._models[step], self._needs[step], self._without[step]
        output, failing = run_each(lambda some: model.run(some, needs, without=without), inputs)
        if failing:
            raise ModelFails(
                f"{step} fails on {len(failing)} of {len(inputs)} rows that are run again:"
                f" {next(iter(failing.values()))}; mend the model, or choose other rows"
            )
        return output

    def _judged(self, artifact: Artifact, outputs: dict[str, Output], groups: Sequence[str | None]) -> ReplayResult:
        steps = {name: outputs[name] for name in (self._name, *artifact.further)}
        ended = last_words(
            {
                name: artifact.selector_of(name).decide(
                    as_fitted(output, artifact, name).only(artifact.selector_of(name).needs), groups
                )
                for name, output in steps.items()
            }
        )
        written = [output.replies for output in steps.values() if output.replies is not None]
        output = Output(
            logits=ended.of([output.logits for output in steps.values()]),
            probabilities=ended.of([output.probabilities for output in steps.values()]),
            replies=ended.of(written) if len(written) == len(steps) else None,
            slots=next(iter(steps.values())).slots,  # a sparse task has no cascade
        )
        return ReplayResult(artifact=artifact.name, judgement=ended.judgement, output=output, right=self._right)

    def _needed_of(self, step: str) -> frozenset[Need]:
        return frozenset[Need]().union(
            *(
                artifact.selector_of(step).needs
                for artifact in self._artifacts
                if step == self._name or step in artifact.further
            )
        )

    def _left_out_of(self, step: str) -> frozenset[str]:
        """Parameters without which the artifacts were fitted. Raises `ArtifactRefused` where they differ in that: all
        of them judge the same replies."""
        concerned = [artifact for artifact in self._artifacts if step == self._name or step in artifact.further]
        for artifact in concerned:
            check_same_way(artifact, concerned[0], step)
        return concerned[0].left_out_of(step)
