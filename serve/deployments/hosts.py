"""Ray Serve's shell of a model: a host of a classifier, or of a language model."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from demur.calibration_store.artifact import ArtifactRefused
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from demur.serve.config.file import Config
from demur.serve.contract.decided import Decided, Share
from demur.serve.contract.engine import Asking, EngineFailed, Message, Piece
from demur.serve.contract.hosts import HostState, Step
from demur.serve.contract.inputs import ModelInput
from demur.serve.deployments.every import every
from demur.serve.deployments.traced import traces_of
from demur.serve.hosts.garbage import look_rarely, without_collection
from demur.serve.hosts.set_level import SetLevel
from demur.serve.telemetry.logs import log_to_stderr
from demur.traffic.database import Database
from demur.uncertainty.generation import Generation

Result = TypeVar("Result")

REFRESH_SECONDS = 2.0
"""How often a host looks for what was promoted, or set as shadow or canary."""

CONTROL_SECONDS = 1.0
"""How often a host learns the level of its sets."""


def host_deployment(model: str) -> str:
    """What the host of a model is called in Ray Serve."""
    return f"host-{model}"


@dataclass(frozen=True)
class NoArtifact:
    """What a host replies instead of decisions while it has no artifact."""

    why: str


@dataclass(frozen=True)
class Failed:
    """What a host replies where its engine failed to pass something through."""

    why: str


class Host:
    """One replica of one model. The model runs in a thread of its own, so that health checks are always answered."""

    def __init__(self, name: str, config: Config, *, fitted: bool = False) -> None:
        with without_collection():
            from demur.serve.hosts.host import ModelHost  # brings torch, which the gateway and the console do without

        log_to_stderr(config.telemetry.logs)
        look_rarely()
        self._name = name
        self._traces = traces_of(config, part=f"host {name}")
        self._one_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._model = ModelHost(name, config.models[name], ArtifactStore(config.artifacts), others=config.models)
        _check_started(self._model.state(), fitted=fitted)
        every(REFRESH_SECONDS, self._refresh, name=f"{name}-artifacts")
        _follow_labels(name, config, self._model.set_level)

    async def state(self) -> HostState:
        return self._model.state()

    async def decide(
        self,
        inputs: Sequence[ModelInput],
        groups: Sequence[str | None],
        draws: Sequence[int],
        traceparent: str | None = None,
    ) -> list[Share] | NoArtifact:
        try:
            return await self._in_thread(traceparent, partial(self._model.decide, inputs, groups, draws))
        except ArtifactNotFound as error:
            return NoArtifact(str(error))

    async def decide_next(
        self,
        inputs: Sequence[ModelInput],
        groups: Sequence[str | None],
        step: Step,
        traceparent: str | None = None,
    ) -> Decided | NoArtifact:
        try:
            return await self._in_thread(traceparent, partial(self._model.decide_next, inputs, groups, step))
        except (ArtifactNotFound, ArtifactRefused, ArtifactsUnreachable) as error:
            return NoArtifact(str(error))  # no fault of an input: asking again row by row would only take longer

    async def _in_thread(self, traceparent: str | None, work: Callable[[], Result]) -> Result:
        if traceparent and self._traces:
            work = partial(self._traces.host, self._name, traceparent, work)
        return await asyncio.get_running_loop().run_in_executor(self._one_thread, work)

    def _refresh(self) -> None:
        """Read and check artifacts here; only what needs the model is done in the model's thread."""
        self._model.refresh(lambda job: self._one_thread.submit(job).result())


class LanguageModelHost:
    """One replica of one language model. Its engine takes many batches at a time, in the replica's own loop."""

    async def __init__(self, name: str, config: Config, *, fitted: bool = False) -> None:  # type: ignore[misc]  # Serve awaits it
        from demur.serve.hosts.language.host import LanguageHost
        from demur.serve.hosts.language.reviewed import reviewed_of

        log_to_stderr(config.telemetry.logs)
        look_rarely()
        self._name = name
        self._traces = traces_of(config, part=f"host {name}")
        store = ArtifactStore(config.artifacts)
        self._model = await LanguageHost.started(
            name, config.models[name], store, others=config.models, reviewed=reviewed_of(config, name)
        )
        _check_started(self._model.state(), fitted=fitted)
        every(REFRESH_SECONDS, self._model.refresh, name=f"{name}-artifacts")
        _follow_labels(name, config, self._model.set_level)

    def _traced(self, traceparent: str | None) -> AbstractContextManager[None]:
        if traceparent and self._traces:
            return self._traces.at_host(self._name, traceparent)
        return nullcontext()

    async def check_health(self) -> None:
        """Asked by Serve, which replaces a replica that raises."""
        await self._model.check_health()

    async def state(self) -> HostState:
        return self._model.state()

    async def decide(
        self,
        inputs: Sequence[ModelInput],
        groups: Sequence[str | None],
        draws: Sequence[int],
        traceparent: str | None = None,
    ) -> list[Share] | NoArtifact:
        try:
            with self._traced(traceparent):
                return await self._model.decide(inputs, groups, draws)
        except ArtifactNotFound as error:
            return NoArtifact(str(error))

    async def decide_next(
        self,
        inputs: Sequence[ModelInput],
        groups: Sequence[str | None],
        step: Step,
        traceparent: str | None = None,
    ) -> Decided | NoArtifact:
        try:
            with self._traced(traceparent):
                return await self._model.decide_next(inputs, groups, step)
        except (ArtifactNotFound, ArtifactRefused, ArtifactsUnreachable) as error:
            return NoArtifact(str(error))

    async def stream(
        self, value: ModelInput, group: str | None, draw: int
    ) -> AsyncGenerator[str | Share | NoArtifact, None]:
        try:
            async with aclosing(self._model.stream(value, group, draw)) as items:
                async for item in items:
                    yield item
        except ArtifactNotFound as error:
            yield NoArtifact(str(error))

    async def complete(self, messages: Sequence[Message], asking: Asking) -> list[Generation] | Failed:
        try:
            return await self._model.complete(messages, asking)
        except EngineFailed as error:
            return Failed(str(error))

    async def pieces(self, messages: Sequence[Message], asking: Asking) -> AsyncGenerator[Piece | Failed, None]:
        try:
            async with aclosing(self._model.pieces(messages, asking)) as pieces:
                async for piece in pieces:
                    yield piece
        except EngineFailed as error:
            yield Failed(str(error))


def _check_started(state: HostState, *, fitted: bool) -> None:
    """Raise `ArtifactNotFound` where a replica finds no artifact although there was one when the service was built.
    Ray Serve then starts it again and again, and the replicas that have theirs serve alone meanwhile. An artifact that
    was refused would be refused again: the replica then says so to whoever asks."""
    if fitted and state.artifact is None and not state.refused:
        raise ArtifactNotFound(state.trouble)


def _follow_labels(name: str, config: Config, level: SetLevel | None) -> None:
    """Where labels move the error level of a model's sets, learn it now and again and again."""
    if level is not None:
        database = Database(config.database, max_connections=1)
        level.learn(database)
        every(CONTROL_SECONDS, lambda: level.learn(database), name=f"{name}-level")
