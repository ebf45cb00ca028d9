"""A language model and the artifacts that judge what it writes, for many batches at a time. Knows no Ray, no HTTP."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace

from demur.calibration_store.artifact import Artifact
from demur.calibration_store.store import ArtifactStore
from demur.policies.selector import Selector
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts import ClassifierHost
from demur.serve.contract.batching import Together
from demur.serve.contract.decided import Decided, Share
from demur.serve.contract.engine import Asking, Engine, Message, Piece
from demur.serve.contract.hosts import HostState, Step
from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.hosts.asked_as_fitted import check_asked_as_fitted
from demur.serve.hosts.language.budget import more
from demur.serve.hosts.language.engines import started
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.language.model import LanguageModel
from demur.serve.hosts.language.overheard import OverheardEngine, listening
from demur.serve.hosts.lineup import Lineup
from demur.serve.hosts.panel import NOT_FROM_MODEL, Batch, Groups, Job, Panel
from demur.serve.hosts.set_level import SetLevel
from demur.uncertainty.generation import Generation
from demur.uncertainty.output import Need, Output


class LanguageHost:
    """Owns one engine. Everything runs in the loop that it was made in, but for `refresh`."""

    def __init__(
        self,
        name: str,
        config: ModelConfig,
        store: ArtifactStore,
        engine: Engine,
        *,
        others: Mapping[str, ModelConfig] | None = None,
        reviewed: Reviewed | None = None,
    ) -> None:
        """`others` are all models that are configured, for those that a cascade asks next; `reviewed` gives what
        reviewers said, for few-shot examples."""
        self._loop = asyncio.get_running_loop()
        self._name = name
        self._engine = OverheardEngine(engine)
        self._model = LanguageModel(config, self._engine, reviewed=reviewed)
        self._samples = config.samples
        self._panel = Panel(name, config, store, others)
        self._judging: Together[Batch, list[Share]] = Together(self._panel.shares_together)

    @classmethod
    async def started(
        cls,
        name: str,
        config: ModelConfig,
        store: ArtifactStore,
        *,
        others: Mapping[str, ModelConfig] | None = None,
        reviewed: Reviewed | None = None,
    ) -> "LanguageHost":
        """Start the engine, and take up what the store says."""
        assert not isinstance(config.host, ClassifierHost)
        host = cls(name, config, store, await started(config.host), others=others, reviewed=reviewed)
        await asyncio.to_thread(host.refresh)
        return host

    @property
    def spec(self) -> InputSpec:
        return self._model.spec

    def state(self) -> HostState:
        state = self._panel.state(self.spec)
        return replace(state, trouble="; ".join(filter(None, (state.trouble, *self._engine.remarks()))))

    @property
    def set_level(self) -> SetLevel | None:
        """Where labels move the error level of prediction sets."""
        return self._panel.set_level

    def refresh(self) -> None:
        """Take up what the store says now, for what is asked from then on. To be called in another thread."""
        self._panel.refresh(self._try, self._in_loop)

    async def check_health(self) -> None:
        """Raise where the engine is dead, and the replica must be replaced."""
        await self._engine.check_health()

    async def decide(self, inputs: Sequence[ModelInput], groups: Groups, draws: Sequence[int] | None) -> list[Share]:
        """Ask the model, and return what each artifact that had a part in it decided about its rows, as `Panel.shares`
        does. What was asked under one lineup is decided by it, whatever is promoted meanwhile; what the engine ends in
        one step is judged together."""
        lineup = self._panel.lineup
        began = time.perf_counter()
        output = await self._run_for(lineup, inputs)
        spent = (time.perf_counter() - began) * 1000
        return await self._judging.one(Batch(lineup=lineup, output=output, groups=groups, draws=draws, spent=spent))

    async def decide_next(self, inputs: Sequence[ModelInput], groups: Groups, step: Step) -> Decided:
        """Decide rows that another model escalates, by its artifact: that was fitted for both."""
        artifact = await asyncio.to_thread(self._panel.artifact_of, step)
        began = time.perf_counter()
        selector = self._panel.selector_of(artifact)
        output = await self._run(inputs, [selector], artifact.left_out_of(self._name))
        return self._panel.decide_by(artifact, output, groups, spent=(time.perf_counter() - began) * 1000)

    async def stream(self, value: ModelInput, group: str | None, draw: int) -> AsyncGenerator[str | Share, None]:
        """Yield the reply to one input piece by piece as it is written, and last what was decided about it.

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
        """What the engine says, and nothing of ours: no prompt, no score, no decision."""
        return await self._engine.generate(messages, asking)

    async def pieces(self, messages: Sequence[Message], asking: Asking) -> AsyncGenerator[Piece, None]:
        """The same, one reply piece by piece."""
        async for piece in self._engine.stream(messages, asking):
            yield piece

    async def _run_for(self, lineup: Lineup, inputs: Sequence[ModelInput]) -> Output:
        """Ask for what all of them need; if that fails, for what the artifact in force needs alone."""
        everyone = [artifact.selector for artifact in lineup.artifacts]
        alone = [lineup.in_force.selector]
        without = lineup.in_force.left_out_of(self._name)  # and of those beside it
        if len(everyone) == 1:
            return await self._run(inputs, alone, without)
        try:
            return await self._run(inputs, everyone, without)
        except Exception as error:
            output = await self._run(inputs, alone, without)
            self._panel.complain(NOT_FROM_MODEL, error)
            return output

    async def _run(
        self, inputs: Sequence[ModelInput], selectors: Sequence[Selector], without: frozenset[str]
    ) -> Output:
        needs = frozenset[Need]().union(*(selector.needs for selector in selectors))
        return await self._model.run(inputs, needs, more=more(selectors, self._samples), without=without)

    def _try(self, artifact: Artifact) -> None:
        """Whether the model can give what the scores need, asked as it was when they were fitted."""
        without = artifact.left_out_of(self._name)
        example = self._model.run([self._model.example()], artifact.selector.needs, without=without)
        output = asyncio.run_coroutine_threadsafe(example, self._loop).result()
        check_asked_as_fitted(output, artifact, self._name)
        self._panel.judge(artifact, output, [None])

    def _in_loop(self, job: Job) -> None:
        """Rows are judged in the loop, in one go: what is done there is done between two of them."""

        async def work() -> None:
            job()

        asyncio.run_coroutine_threadsafe(work(), self._loop).result()
