"""Ray Serve's shell of a host."""

from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass

from demur.calibration_store.artifact import ArtifactRefused
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from demur.serve.config.file import Config
from demur.serve.contract.decided import ArtifactShare, DecidedRows
from demur.serve.contract.engine import Asking, EngineFailed, Piece
from demur.serve.contract.hosts import HostState, Step
from demur.serve.contract.inputs import ModelInput
from demur.serve.contract.messages import Message
from demur.serve.deployments.every import every
from demur.serve.deployments.host_socket import HostSocket
from demur.serve.deployments.socket_frames import socket_folder
from demur.serve.deployments.traced import traces_of
from demur.serve.hosts.garbage import look_rarely
from demur.serve.hosts.set_level import SetLevel
from demur.serve.telemetry.logs import log_to_stderr
from demur.traffic.database import Database
from demur.uncertainty.generation import Generation

REFRESH_SECONDS = 2.0
"""How often a host looks for what was promoted, or set as shadow or canary."""

CONTROL_SECONDS = 1.0
"""How often a host learns the level of its sets."""


def host_deployment(model: str) -> str:
    """What the host of a model is called in Ray Serve."""
    return f"host-{model}"


def most_calls(config: Config, model: str) -> int:
    """How many calls a replica of a host takes at a time: what all gateways may send, and room for questions about its
    state."""
    return config.models[model].host.batch.in_flight * config.gateway.most_replicas + 4


@dataclass(frozen=True)
class NoArtifact:
    """What a host replies instead of decisions while it has no artifact."""

    why: str


@dataclass(frozen=True)
class NoDraws:
    """What a host replies instead of decisions where a canary decides about some rows, and no draws came."""


@dataclass(frozen=True)
class EngineFailure:
    """What a host replies where its engine failed to pass something through."""

    why: str


class ModelReplica:
    """One replica of one model of any kind. The model runs in the replica's own loop, or in a thread beside it, so that
    health checks are always answered."""

    _socket: HostSocket | None = None

    async def __init__(self, name: str, config: Config, *, fitted: bool = False) -> None:  # type: ignore[misc]  # Serve awaits it
        from demur.serve.hosts.host import Host  # brings what the gateway and the pages do without
        from demur.serve.hosts.language.reviewed import reviewed_of

        log_to_stderr(config.telemetry.logs)
        look_rarely()
        self._name = name
        self._traces = traces_of(config, part=f"host {name}")
        store = ArtifactStore(config.artifacts)
        self._host = await Host.started(
            name, config.models[name], store, others=config.models, reviewed=reviewed_of(config, name)
        )
        _check_started(self._host.state(), fitted=fitted)
        every(REFRESH_SECONDS, self._host.refresh, name=f"{name}-artifacts")
        _follow_labels(name, config, self._host.set_level)
        if folder := socket_folder(config, name):
            self._socket = HostSocket(
                name, {"decide": self.decide, "decide_next": self.decide_next}, most=most_calls(config, name)
            )
            await self._socket.open(folder)

    def __del__(self) -> Coroutine[None, None, None] | None:
        """Called, and awaited, by Serve before a replica stops: Serve itself waits for calls by its handle alone."""
        closing, self._socket = self._socket, None
        return closing.close() if closing else None

    def _traced(self, traceparent: str | None) -> AbstractContextManager[None]:
        if traceparent and self._traces:
            return self._traces.at_host(self._name, traceparent)
        return nullcontext()

    async def check_health(self) -> None:
        """Asked by Serve, which replaces a replica that raises."""
        await self._host.check_health()

    async def state(self) -> HostState:
        return self._host.state()

    async def decide(
        self,
        inputs: Sequence[ModelInput],
        groups: Sequence[str | None],
        draws: Sequence[int] | None,
        traceparent: str | None = None,
    ) -> list[ArtifactShare] | NoArtifact | NoDraws:
        if draws is None and self._host.wants_draws:
            return NoDraws()
        try:
            with self._traced(traceparent):
                return await self._host.decide(inputs, groups, draws)
        except ArtifactNotFound as error:
            return NoArtifact(str(error))

    async def decide_next(
        self,
        inputs: Sequence[ModelInput],
        groups: Sequence[str | None],
        step: Step,
        traceparent: str | None = None,
    ) -> DecidedRows | NoArtifact:
        try:
            with self._traced(traceparent):
                return await self._host.decide_next(inputs, groups, step)
        except (ArtifactNotFound, ArtifactRefused, ArtifactsUnreachable) as error:
            return NoArtifact(str(error))  # no fault of an input: asking again row by row would only take longer

    async def stream(
        self, value: ModelInput, group: str | None, draw: int
    ) -> AsyncGenerator[str | ArtifactShare | NoArtifact, None]:
        try:
            async with aclosing(self._host.stream(value, group, draw)) as items:
                async for item in items:
                    yield item
        except ArtifactNotFound as error:
            yield NoArtifact(str(error))

    async def complete(self, messages: Sequence[Message], asking: Asking) -> list[Generation] | EngineFailure:
        try:
            return await self._host.complete(messages, asking)
        except EngineFailed as error:
            return EngineFailure(str(error))

    async def pieces(self, messages: Sequence[Message], asking: Asking) -> AsyncGenerator[Piece | EngineFailure, None]:
        try:
            async with aclosing(self._host.pieces(messages, asking)) as pieces:
                async for piece in pieces:
                    yield piece
        except EngineFailed as error:
            yield EngineFailure(str(error))


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
