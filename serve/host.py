"""A model and the artifacts that judge its output, for one batch at a time. Knows no Ray and no HTTP."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from calibration_store.artifact import Artifact
from calibration_store.store import ArtifactNotFound, ArtifactStore
from policies.judgement import Judgement
from serve.config import ModelConfig
from serve.decided import Decided, Shadowed, Share, as_columns, as_shadow
from serve.identity import identity_of
from serve.inputs import InputSpec, ModelInput
from serve.later_steps import LaterSteps
from serve.lineup import Lineup, Watch
from serve.models import Classifier
from serve.road import HostState, Step
from uncertainty.checks import Mask
from uncertainty.output import Need, Output

log = logging.getLogger("demur.host")

Job = Callable[[], None]
Groups = Sequence[str | None]


class ModelHost:
    """Owns one model. Not safe to run from two threads at a time."""

    def __init__(
        self, name: str, config: ModelConfig, store: ArtifactStore, *, others: Mapping[str, ModelConfig] | None = None
    ) -> None:
        """`others` are all models that are configured, for those that a cascade asks next."""
        self.name = name
        self.labels = config.task.labels
        self._mc_passes = config.host.mc_passes
        self._task = config.task
        self._classifier = Classifier(
            config.host.checkpoint, device=config.host.device, link=config.task.link, tree=config.task.tree
        )
        identity = identity_of(config, self._classifier.folder)
        self._watch = Watch(name, store, identity, others)
        self._later_steps = LaterSteps(name, store, identity)
        self._lineup: Lineup | None = None
        self._failed: dict[str, str] = {}
        self.refresh()

    @property
    def spec(self) -> InputSpec:
        return self._classifier.spec

    @property
    def artifact_name(self) -> str | None:
        return self._lineup.in_force.name if self._lineup else None

    @property
    def trouble(self) -> str:
        """What is not as the store wants it, or went wrong beside what is in force; empty when all is well."""
        return "; ".join(filter(None, (self._watch.trouble, *self._failed.values())))

    def state(self) -> HostState:
        lineup = self._lineup
        return HostState(
            spec=self.spec,
            artifact=lineup.in_force.name if lineup else None,
            shadow=lineup.shadow.name if lineup and lineup.shadow else None,
            canary=lineup.canary.name if lineup and lineup.canary else None,
            share=lineup.share if lineup else 0.0,
            trouble=self.trouble,
        )

    def refresh(self, in_model_thread: Callable[[Job], None] = lambda job: job()) -> None:
        """Take up what the store says now, from the next batch on.

        Reads and checks in the thread that calls. What touches the model, to try a new artifact and to swap, is left
        to `in_model_thread`: it does a job where no batch runs at that moment, and returns when it is done.
        """
        lineup = self._watch.look(lambda artifact: in_model_thread(partial(self._try, artifact)))
        if lineup is not self._lineup:
            in_model_thread(partial(self._swap, lineup))

    def _swap(self, lineup: Lineup | None) -> None:
        self._lineup, self._failed = lineup, {}

    def _try(self, artifact: Artifact) -> None:
        """The first pass through a model is slow, and shows whether it can give what the scores need."""
        self._judge(artifact, self._run([self._classifier.example()], artifact.selector.needs), [None])

    def decide(
        self, inputs: Sequence[ModelInput], groups: Groups | None = None, draws: Sequence[int] | None = None
    ) -> list[Share]:
        """Run the model once, and return what each artifact that had a part in it decided about its rows.

        `groups` says where each input comes from. `draws`, in [0, 2**64), settle which rows are the canary's: those
        below its share; without draws none is. Every row is in exactly one of the results.
        """
        lineup = self._lineup
        if lineup is None:
            raise ArtifactNotFound(self._watch.trouble)
        groups = groups or [None] * len(inputs)
        started = time.perf_counter()
        output = self._run_for(lineup, inputs)
        judged = self._judge_shares(lineup, output, groups, lineup.in_canary(draws, len(inputs)))
        spent = (time.perf_counter() - started) * 1000
        shares = []
        for artifact, rows, judgement in judged:
            part = _part(output, rows)
            decided = as_columns(
                artifact.name,
                self.labels,
                part,
                judgement,
                exclusive=self._task.exclusive,
                model_milliseconds=spent,
                asks_next=artifact.selector.asks_next,
            )
            began = time.perf_counter()
            shadow = self._in_the_shadow(lineup, part, _of(groups, rows))
            shares.append(
                Share(
                    rows=np.flatnonzero(rows).tolist(),
                    decided=decided,
                    shadow=shadow,
                    shadow_milliseconds=(time.perf_counter() - began) * 1000,
                )
            )
        return shares

    def decide_next(self, inputs: Sequence[ModelInput], groups: Groups, step: Step) -> Decided:
        """Decide rows that another model escalates, by its artifact: that was fitted for both."""
        artifact = self._later_steps.artifact(step)
        selector = artifact.further[self.name]
        started = time.perf_counter()
        output = self._run(inputs, selector.needs)
        judgement = selector.decide(output, groups)
        return as_columns(
            artifact.name,
            self.labels,
            output,
            judgement,
            exclusive=self._task.exclusive,
            model_milliseconds=(time.perf_counter() - started) * 1000,
            asks_next=selector.asks_next,
        )

    def _judge_shares(
        self, lineup: Lineup, output: Output, groups: Groups, in_canary: Mask
    ) -> list[tuple[Artifact, Mask, Judgement]]:
        """Judge the rows of the canary and those of the artifact in force. What the canary cannot judge is not its."""
        judged = []
        if lineup.canary and in_canary.any():
            try:
                judgement = self._judge(lineup.canary, _part(output, in_canary), _of(groups, in_canary))
                judged.append((lineup.canary, in_canary, judgement))
            except Exception as error:
                self._complain(f"the canary {lineup.canary.name} failed, and the artifact in force decided", error)
                in_canary = np.zeros_like(in_canary)
        if not in_canary.all():
            rows = ~in_canary
            judgement = self._judge(lineup.in_force, _part(output, rows), _of(groups, rows))
            judged.append((lineup.in_force, rows, judgement))
        return judged

    def _in_the_shadow(self, lineup: Lineup, output: Output, groups: Groups) -> Shadowed | None:
        """Let the shadow judge the same rows. However it fails, nobody is to notice."""
        if lineup.shadow is None:
            return None
        try:
            judgement = self._judge(lineup.shadow, output, groups)
            return as_shadow(lineup.shadow.name, self.labels, output, judgement, exclusive=self._task.exclusive)
        except Exception as error:
            self._complain(f"the shadow {lineup.shadow.name} failed", error)
            return None

    def _run_for(self, lineup: Lineup, inputs: Sequence[ModelInput]) -> Output:
        """Run the model once for all; if that fails, for the artifact in force alone."""
        enough = lineup.in_force.selector.needs
        if lineup.needs == enough:
            return self._run(inputs, enough)
        try:
            return self._run(inputs, lineup.needs)
        except Exception as error:
            output = self._run(inputs, enough)  # raises as well where the input is to blame
            self._complain("what only the shadow or the canary needs could not be had from the model", error)
            return output

    def _run(self, inputs: Sequence[ModelInput], needs: frozenset[Need]) -> Output:
        return self._classifier.run(inputs, needs, mc_passes=self._mc_passes)

    def _judge(self, artifact: Artifact, output: Output, groups: Groups) -> Judgement:
        return artifact.selector.decide(output.only(artifact.selector.needs), groups)

    def _complain(self, what: str, error: Exception) -> None:
        """Say it in the log once for as long as the artifacts are these, and in `trouble` until they are others."""
        if what not in self._failed:
            log.error("model %s: %s", self.name, what, exc_info=error)
            self._failed = {**self._failed, what: f"{what}: {type(error).__name__}: {error}"}


def _part(output: Output, rows: Mask) -> Output:
    return output if rows.all() else output.rows(rows)


def _of(groups: Groups, rows: Mask) -> Groups:
    return groups if rows.all() else [group for group, taken in zip(groups, rows, strict=True) if taken]
