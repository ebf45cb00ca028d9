"""A model of any kind and the artifacts that judge its output. Knows no Ray and no HTTP."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from demur.calibration_store.artifact import Artifact
from demur.calibration_store.store import ArtifactStore
from demur.policies.selector import Selector
from demur.serve.config.file import ModelConfig
from demur.serve.contract.batching import TurnBatcher
from demur.serve.contract.decided import ArtifactShare, DecidedRows
from demur.serve.contract.engine import Asking, Piece
from demur.serve.contract.hosts import HostState, Step
from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.contract.messages import Message
from demur.serve.contract.model import Model, ModelRequest, ScoringModel
from demur.serve.hosts.active_artifacts import (
    NOT_FROM_MODEL,
    ActiveArtifacts,
    Groups,
    Job,
    JudgingBatch,
    device_scores_of,
)
from demur.serve.hosts.artifact_set import ArtifactSet
from demur.serve.hosts.asked_as_fitted import check_asked_as_fitted
from demur.serve.hosts.kinds import kind_of
from demur.serve.hosts.language.budget import more
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.language.model import LanguageModel
from demur.serve.hosts.language.overheard import listening
from demur.serve.hosts.set_level import SetLevel
from demur.serve.telemetry.stages import stage
from demur.uncertainty.generation import Generation
from demur.uncertainty.output import Need, Output


class Host:
    """Owns one model. Everything runs in the event loop in which it was made, except `refresh`."""

    def __init__(
        self,
        name: str,
        config: ModelConfig,
        store: ArtifactStore,
        model: Model,
        *,
        others: Mapping[str, ModelConfig] | None = None,
    ) -> None:
        """`others` are all models that are configured: a cascade asks some of them next."""
        self._loop = asyncio.get_running_loop()
        self._name = name
        self.model = model
        self._samples = config.samples
        self._panel = ActiveArtifacts(name, config, store, others)
        self._judging: TurnBatcher[JudgingBatch, list[ArtifactShare]] = TurnBatcher(self._panel.shares_together)

    @classmethod
    async def started(
        cls,
        name: str,
        config: ModelConfig,
        store: ArtifactStore,
        *,
        others: Mapping[str, ModelConfig] | None = None,
        reviewed: Reviewed | None = None,
    ) -> "Host":
        """Load the model, and take up what the store says. `reviewed` gives what reviewers said, for few-shot
        examples."""
        host = cls(name, config, store, await kind_of(config).load(config, reviewed), others=others)
        await asyncio.to_thread(host.refresh)
        return host

    @property
    def spec(self) -> InputSpec:
        return self.model.spec

    @property
    def artifact_name(self) -> str | None:
        return self._panel.artifact_name

    @property
    def trouble(self) -> str:
        """What is not as the store or the model should be; empty when all is well."""
        return "; ".join(filter(None, (self._panel.trouble, *self.model.remarks())))

    def state(self) -> HostState:
        return replace(self._panel.state(self.spec), trouble=self.trouble)

    @property
    def wants_draws(self) -> bool:
        """Whether a canary decides about some rows."""
        return self._panel.has_canary

    @property
    def set_level(self) -> SetLevel | None:
        """Where labels move the error level of prediction sets."""
        return self._panel.set_level

    def refresh(self) -> None:
        """Take up what the store says now, from the next batch on. To be called in another thread: it reads and checks
        artifacts there, and asks the event loop for what needs the model."""
        self._panel.refresh(self._try, self._in_loop)

    async def check_health(self) -> None:
        """Raise if the model is dead and its replica must be replaced."""
        await self.model.check_health()

    async def decide(
        self, inputs: Sequence[ModelInput], groups: Groups | None = None, draws: Sequence[int] | None = None
    ) -> list[ArtifactShare]:
        """Run the model, and return what each artifact that had a part in it decided about its rows.

        `groups` [n] says where each input comes from; `draws` [n] are as in `ActiveArtifacts.shares`. What was asked
        under one set of artifacts is decided by it, whatever is promoted meanwhile. Batches that end together are
        judged together.
        """
        lineup = self._panel.lineup
        began = time.perf_counter()
        with stage("forward"):
            output = await self._run_for(lineup, inputs)
        spent = (time.perf_counter() - began) * 1000
        batch = JudgingBatch(
            lineup=lineup, output=output, groups=groups or [None] * len(inputs), draws=draws, spent=spent
        )
        with stage("scores"):
            return await self._judging.one(batch)

    async def decide_next(self, inputs: Sequence[ModelInput], groups: Groups, step: Step) -> DecidedRows:
        """Decide rows that another model escalates, by its artifact: that was fitted for both."""
        artifact = await asyncio.to_thread(self._panel.artifact_of, step)
        began = time.perf_counter()
        selector = self._panel.selector_of(artifact)
        output = await self._run(inputs, [selector], artifact.left_out_of(self._name))
        return self._panel.decide_by(artifact, output, groups, spent=(time.perf_counter() - began) * 1000)

    async def stream(
        self, value: ModelInput, group: str | None, draw: int
    ) -> AsyncGenerator[str | ArtifactShare, None]:
        """Yield the reply of a language model to one input as it is written, and last what was decided about it.

        The first piece is empty: there is an artifact, and the model is being asked. Closing the generator stops the
        model; then nothing is decided.
        """
        _ = self._panel.lineup
        yield ""
        heard: asyncio.Queue[str | None] = asyncio.Queue()
        deciding = asyncio.create_task(self.decide([value], [group], [draw]), context=listening(heard.put_nowait))
        deciding.add_done_callback(lambda _: heard.put_nowait(None))
        try:
            while (piece := await heard.get()) is not None:
                yield piece
            (share,) = await deciding
            yield share
        finally:
            deciding.cancel()

    async def complete(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        """Return what the engine of a language model says, and nothing of ours: no prompt, no score, no decision."""
        return await cast(LanguageModel, self.model).engine.generate(messages, asking)

    async def pieces(self, messages: Sequence[Message], asking: Asking) -> AsyncGenerator[Piece, None]:
        """Yield what the engine of a language model says, piece by piece as it is written."""
        async for piece in cast(LanguageModel, self.model).engine.stream(messages, asking):
            yield piece

    async def _run_for(self, lineup: ArtifactSet, inputs: Sequence[ModelInput]) -> Output:
        """Ask for what all artifacts need; if that fails, for what the one in force needs alone."""
        everyone = [artifact.selector for artifact in lineup.artifacts]
        alone = [lineup.in_force.selector]
        without = lineup.in_force.left_out_of(self._name)  # and of those beside it
        if len(everyone) == 1:
            return await self._run(inputs, alone, without)
        try:
            return await self._run(inputs, everyone, without)
        except Exception as error:
            output = await self._run(inputs, alone, without)  # raises as well where the input is to blame
            self._panel.complain(NOT_FROM_MODEL, error)
            return output

    async def _run(
        self, inputs: Sequence[ModelInput], selectors: Sequence[Selector], without: frozenset[str]
    ) -> Output:
        needs = frozenset[Need]().union(*(selector.needs for selector in selectors))
        asked = ModelRequest(
            inputs=inputs,
            needs=needs,
            more=more(selectors, self._samples),
            without=without,
            scores=[score for selector in selectors for score in device_scores_of(selector)],
        )
        return await self.model.run(asked)

    def _try(self, artifact: Artifact) -> Artifact:
        """Return the artifact with the scores that the model's device makes, after showing that the model gives what
        all of its scores need, asked as it was when they were fitted."""
        artifact = self._lifted(artifact)
        request = ModelRequest(
            inputs=[self.model.example()],
            needs=artifact.selector.needs,
            without=artifact.left_out_of(self._name),
            scores=device_scores_of(artifact.selector),
        )
        output = asyncio.run_coroutine_threadsafe(self.model.run(request), self._loop).result()
        check_asked_as_fitted(output, artifact, self._name)

        def judge() -> None:
            self._panel.judge(artifact, output, [None])

        self._in_loop(judge)
        return artifact

    def _lifted(self, artifact: Artifact) -> Artifact:
        """The artifact with each score in the place where it is made: on the model's device, or in NumPy."""
        if not isinstance(self.model, ScoringModel):
            return artifact
        fitted, on_device = artifact.selector.scores, self.model.on_device
        scores = {name: on_device(f"{artifact.name}/{name}", score) or score for name, score in fitted.items()}
        return replace(artifact, selector=replace(artifact.selector, scores=scores))

    def _in_loop(self, job: Job) -> None:
        """Do a job between two batches: rows are judged in the loop, in one go."""

        async def work() -> None:
            job()

        asyncio.run_coroutine_threadsafe(work(), self._loop).result()
