"""The artifacts that judge one model's output: which they are now, and what each of them decides about a batch."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from demur.calibration_store.artifact import Artifact
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from demur.policies.judgement import Judgement
from demur.policies.selector import Selector
from demur.serve.config.control import AdaptiveSetsConfig
from demur.serve.config.file import ModelConfig
from demur.serve.config.fitted_settings import differences, in_words
from demur.serve.contract.decided import ArtifactShare, DecidedRows, ShadowRows, as_columns, as_shadow
from demur.serve.contract.hosts import HostState, Step
from demur.serve.contract.inputs import InputSpec
from demur.serve.contract.model import DeviceScore
from demur.serve.hosts.artifact_set import ArtifactSet, ArtifactWatch
from demur.serve.hosts.asked_as_fitted import as_fitted
from demur.serve.hosts.identity import identity_of
from demur.serve.hosts.later_steps import LaterSteps
from demur.serve.hosts.set_level import SetLevel
from demur.uncertainty.checks import Mask
from demur.uncertainty.output import Output

log = logging.getLogger("demur.host")

MOST_NOTED = 5
"""Settings that a reason names."""

Job = Callable[[], None]
Groups = Sequence[str | None]


@dataclass(frozen=True, kw_only=True)
class JudgingBatch:
    """What a model said about some rows, and what is to be known to judge it."""

    lineup: ArtifactSet
    output: Output
    groups: Groups
    draws: Sequence[int] | None
    spent: float
    """Milliseconds in the model."""


class ActiveArtifacts:
    """What a host keeps beside its model. It is not safe to judge in two threads at a time."""

    def __init__(
        self, name: str, config: ModelConfig, store: ArtifactStore, others: Mapping[str, ModelConfig] | None
    ) -> None:
        """`others` are all models that are configured, for those that a cascade asks next."""
        identity = identity_of(config)
        self._name = name
        self._task = config.task
        self._watch = ArtifactWatch(name, store, identity, others)
        self._later_steps = LaterSteps(name, store, identity)
        self._models = {name: config} if others is None else others
        self._lineup: ArtifactSet | None = None
        self._differences: dict[str, dict[str, str]] = {}
        self._failed: dict[str, str] = {}
        self.set_level = SetLevel(name, config) if isinstance(config.control, AdaptiveSetsConfig) else None
        """None where the sets stay as they were fitted."""

    @property
    def lineup(self) -> ArtifactSet:
        """Raises `ArtifactNotFound` while there is none."""
        if self._lineup is None:
            raise ArtifactNotFound(self._watch.trouble)
        return self._lineup

    @property
    def artifact_name(self) -> str | None:
        return self._lineup.in_force.name if self._lineup else None

    @property
    def has_canary(self) -> bool:
        return self._lineup is not None and self._lineup.canary is not None

    @property
    def trouble(self) -> str:
        """What is not as the store wants it, or went wrong beside what is in force; empty when all is well."""
        return "; ".join(filter(None, (self._watch.trouble, *self._failed.values())))

    def state(self, spec: InputSpec) -> HostState:
        lineup = self._lineup
        return HostState(
            spec=spec,
            artifact=lineup.in_force.name if lineup else None,
            shadow=lineup.shadow.name if lineup and lineup.shadow else None,
            canary=lineup.canary.name if lineup and lineup.canary else None,
            share=lineup.share if lineup else 0.0,
            differs=tuple(self.differences(lineup.in_force).values()) if lineup else (),
            refused=self._watch.refused,
            trouble=self.trouble,
        )

    def differences(self, artifact: Artifact) -> dict[str, str]:
        """What is configured otherwise than this artifact was fitted, by key, in words."""
        if artifact.name not in self._differences:
            first = artifact.manifest["name"]  # in a cascade, the model that was asked first
            self._differences[artifact.name] = differences(first, self._models, artifact.manifest)
        return self._differences[artifact.name]

    def _note(self, artifact: Artifact) -> str:
        """What is added to the reasons of an artifact's decisions; empty where the configuration agrees with it."""
        found = self.differences(artifact)
        return f"fitted with other settings than are configured: {', '.join(list(found)[:MOST_NOTED])}" if found else ""

    def refresh(self, trial: Callable[[Artifact], Artifact], between_batches: Callable[[Job], None]) -> None:
        """Take up what the store says now, from the next batch on.

        Reads and checks in the thread that calls. `trial` shows that the model gives what an artifact needs, and
        returns the artifact as it is to be used; whatever it raises, the artifact is refused. `between_batches` does a
        job where nothing is judged at that moment, and returns when it is done.
        """
        lineup = self._watch.look(trial)
        if lineup is not self._lineup:
            between_batches(lambda: self._swap(lineup))

    def _swap(self, lineup: ArtifactSet | None) -> None:
        self._lineup, self._failed, self._differences = lineup, {}, {}
        if lineup and (found := self.differences(lineup.in_force)):
            log.warning(
                "model %s: artifact %s was fitted with other settings than are configured: %s",
                self._name, lineup.in_force.name, in_words(found),
            )  # fmt: skip

    def shares(
        self, lineup: ArtifactSet, output: Output, groups: Groups, draws: Sequence[int] | None, *, spent: float
    ) -> list[ArtifactShare]:
        """What each artifact that had a part in it decided about its rows, after `spent` milliseconds in the model.

        `draws`, in [0, 2**64), settle which rows are the canary's: those below its share; without draws none is. Every
        row is in exactly one of the results.
        """
        started = time.perf_counter()
        judged = self._judge_shares(lineup, output, groups, lineup.in_canary(draws, len(output)))
        spent += (time.perf_counter() - started) * 1000
        shares = []
        for artifact, rows, judgement in judged:
            part = _part(output, rows)
            decided = as_columns(
                artifact.name,
                self._task.labels,
                part,
                judgement,
                exclusive=self._task.exclusive,
                writes=self._task.writes,
                model_milliseconds=spent,
                asks_next=artifact.selector.asks_next,
                note=self._note(artifact),
            )
            began = time.perf_counter()
            shadow = self._in_the_shadow(lineup, part, _of(groups, rows)) or self._only_observed(
                artifact, part, judgement
            )
            shares.append(
                ArtifactShare(
                    rows=np.flatnonzero(rows).tolist(),
                    decided=decided,
                    shadow=shadow,
                    shadow_milliseconds=(time.perf_counter() - began) * 1000,
                )
            )
        return shares

    def shares_together(self, batches: Sequence[JudgingBatch]) -> list[list[ArtifactShare]]:
        """Judge several batches, and return the shares of each. Those that one set of artifacts judges are judged in
        one go."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for place, batch in enumerate(batches):
            parts = frozenset((name, part.dtype) for name, part in batch.output.parts().items())
            alike = id(batch.lineup), batch.draws is None, parts
            groups.setdefault(alike, []).append(place)
        found: dict[int, list[ArtifactShare]] = {}
        for places in groups.values():
            found |= zip(places, self._shares_of([batches[place] for place in places]), strict=True)
        return [found[place] for place in range(len(batches))]

    def _shares_of(self, batches: Sequence[JudgingBatch]) -> list[list[ArtifactShare]]:
        first = batches[0]
        if len(batches) == 1:
            return [self.shares(first.lineup, first.output, first.groups, first.draws, spent=first.spent)]
        shares = self.shares(
            first.lineup,
            Output.concatenate([batch.output for batch in batches]),
            [group for batch in batches for group in batch.groups],
            None if first.draws is None else [draw for batch in batches for draw in batch.draws or ()],
            spent=0.0,
        )
        ends = np.cumsum([len(batch.output) for batch in batches]).tolist()
        return [
            [part for share in shares if (part := share.between(end - len(batch.output), end, spent=batch.spent)).rows]
            for batch, end in zip(batches, ends, strict=True)
        ]

    def artifact_of(self, step: Step) -> Artifact:
        """The artifact of another model by which rows are decided that it escalates to this one."""
        return self._later_steps.artifact(step)

    def selector_of(self, artifact: Artifact) -> Selector:
        """What such an artifact fitted for this model."""
        return artifact.further[self._name]

    def decide_by(self, artifact: Artifact, output: Output, groups: Groups, *, spent: float) -> DecidedRows:
        """Decide rows that another model escalates, by its artifact: that was fitted for both."""
        started = time.perf_counter()
        selector = self.selector_of(artifact)
        judgement = selector.decide(as_fitted(output, artifact, self._name), groups)
        return as_columns(
            artifact.name,
            self._task.labels,
            output,
            judgement,
            exclusive=self._task.exclusive,
            writes=self._task.writes,
            model_milliseconds=spent + (time.perf_counter() - started) * 1000,
            asks_next=selector.asks_next,
            note=self._note(artifact),
        )

    def judge(self, artifact: Artifact, output: Output, groups: Groups) -> Judgement:
        """What one artifact makes of an output that may hold more than it asked for."""
        seen = as_fitted(output, artifact, self._name).only(
            artifact.selector.needs, [score.name for score in device_scores_of(artifact.selector)]
        )
        if self.set_level is not None:
            return self.set_level.judge(artifact, seen, groups)
        return artifact.selector.decide(seen, groups)

    def complain(self, what: str, error: BaseException) -> None:
        """Say it in the log once for as long as the artifacts are these, and in `trouble` until they are others."""
        if what not in self._failed:
            log.error("model %s: %s", self._name, what, exc_info=error)
            self._failed = {**self._failed, what: f"{what}: {type(error).__name__}: {error}"}

    def _judge_shares(
        self, lineup: ArtifactSet, output: Output, groups: Groups, in_canary: Mask
    ) -> list[tuple[Artifact, Mask, Judgement]]:
        """Judge the rows of the canary and those of the artifact in force. What the canary cannot judge is not its."""
        judged = []
        if lineup.canary and in_canary.any():
            try:
                judgement = self.judge(lineup.canary, _part(output, in_canary), _of(groups, in_canary))
                judged.append((lineup.canary, in_canary, judgement))
            except Exception as error:
                self.complain(f"the canary {lineup.canary.name} failed, and the artifact in force decided", error)
                in_canary = np.zeros_like(in_canary)
        if not in_canary.all():
            rows = ~in_canary
            judgement = self.judge(lineup.in_force, _part(output, rows), _of(groups, rows))
            judged.append((lineup.in_force, rows, judgement))
        return judged

    def _in_the_shadow(self, lineup: ArtifactSet, output: Output, groups: Groups) -> ShadowRows | None:
        """Let the shadow judge the same rows. However it fails, nobody is to notice."""
        if lineup.shadow is None:
            return None
        try:
            judgement = self.judge(lineup.shadow, output, groups)
            return as_shadow(lineup.shadow.name, self._task.labels, output, judgement, exclusive=self._task.exclusive)
        except Exception as error:
            self.complain(f"the shadow {lineup.shadow.name} failed", error)
            return None

    def _only_observed(self, artifact: Artifact, output: Output, judgement: Judgement) -> ShadowRows | None:
        """What a policy that only observes would have decided stands where a shadow's decisions stand."""
        if judgement.would_decide is None:
            return None
        would = replace(judgement, decisions=judgement.would_decide)
        return as_shadow(artifact.name, self._task.labels, output, would, exclusive=self._task.exclusive)


def device_scores_of(selector: Selector) -> list[DeviceScore]:
    """Return the scores that the model's device makes for a selector."""
    return [score for score in selector.scores.values() if isinstance(score, DeviceScore)]


NOT_FROM_MODEL = "what only the shadow or the canary needs could not be had from the model"


def _part(output: Output, rows: Mask) -> Output:
    return output if rows.all() else output.rows(rows)


def _of(groups: Groups, rows: Mask) -> Groups:
    return groups if rows.all() else [group for group, taken in zip(groups, rows, strict=True) if taken]
