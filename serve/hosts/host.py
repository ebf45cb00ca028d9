"""A classifier and the artifacts that judge its output, for one batch at a time. Knows no Ray and no HTTP."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from demur.calibration_store.artifact import Artifact
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts import ClassifierHost
from demur.serve.contract.decided import Decided, Share
from demur.serve.contract.hosts import HostState, Step
from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.hosts.lineup import Lineup
from demur.serve.hosts.models import Classifier
from demur.serve.hosts.panel import NOT_FROM_MODEL, Groups, Job, Panel
from demur.serve.hosts.set_level import SetLevel
from demur.serve.telemetry.stages import stage
from demur.uncertainty.output import Output


class ModelHost:
    """Owns one model. Not safe to run from two threads at a time."""

    def __init__(
        self, name: str, config: ModelConfig, store: ArtifactStore, *, others: Mapping[str, ModelConfig] | None = None
    ) -> None:
        assert isinstance(config.host, ClassifierHost)
        self._classifier = Classifier.of(config.host, config.task)
        self._panel = Panel(name, config, store, others)
        self.refresh()

    @property
    def spec(self) -> InputSpec:
        return self._classifier.spec

    @property
    def artifact_name(self) -> str | None:
        return self._panel.artifact_name

    @property
    def trouble(self) -> str:
        return self._panel.trouble

    def state(self) -> HostState:
        return self._panel.state(self.spec)

    @property
    def set_level(self) -> SetLevel | None:
        """Where labels move the error level of prediction sets."""
        return self._panel.set_level

    def refresh(self, in_model_thread: Callable[[Job], None] = lambda job: job()) -> None:
        """Take up what the store says now, from the next batch on.

        Reads and checks in the thread that calls. What touches the model, to try a new artifact and to swap, is left
        to `in_model_thread`: it does a job where no batch runs at that moment, and returns when it is done.
        """
        self._panel.refresh(lambda artifact: in_model_thread(partial(self._try, artifact)), in_model_thread)

    def _try(self, artifact: Artifact) -> None:
        """The first pass through a model is slow, and shows whether it can give what the scores need."""
        output = self._classifier.run([self._classifier.example()], artifact.selector.needs)
        self._panel.judge(artifact, output, [None])

    def decide(
        self, inputs: Sequence[ModelInput], groups: Groups | None = None, draws: Sequence[int] | None = None
    ) -> list[Share]:
        """Run the model once, and return what each artifact that had a part in it decided about its rows.

        `groups` says where each input comes from; `draws` are as in `Panel.shares`.
        """
        lineup = self._panel.lineup
        started = time.perf_counter()
        with stage("forward"):
            output = self._run_for(lineup, inputs)
        spent = (time.perf_counter() - started) * 1000
        with stage("scores"):
            return self._panel.shares(lineup, output, groups or [None] * len(inputs), draws, spent=spent)

    def decide_next(self, inputs: Sequence[ModelInput], groups: Groups, step: Step) -> Decided:
        """Decide rows that another model escalates, by its artifact: that was fitted for both."""
        artifact = self._panel.artifact_of(step)
        started = time.perf_counter()
        output = self._classifier.run(inputs, self._panel.selector_of(artifact).needs)
        return self._panel.decide_by(artifact, output, groups, spent=(time.perf_counter() - started) * 1000)

    def _run_for(self, lineup: Lineup, inputs: Sequence[ModelInput]) -> Output:
        """Run the model once for all; if that fails, for the artifact in force alone."""
        enough = lineup.in_force.selector.needs
        if lineup.needs == enough:
            return self._classifier.run(inputs, enough)
        try:
            return self._classifier.run(inputs, lineup.needs)
        except Exception as error:
            output = self._classifier.run(inputs, enough)  # raises as well where the input is to blame
            self._panel.complain(NOT_FROM_MODEL, error)
            return output
