"""The way from the gateway to a model's host: over a handle of Ray Serve, or past it to hosts on this machine."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import numpy as np
from ray.exceptions import RayError
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator

from demur.calibration_store.store import ArtifactNotFound
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.decided import ArtifactShare, DecidedRows
from demur.serve.contract.engine import Asking, EngineFailed, Piece
from demur.serve.contract.hosts import DrawsWanted, HostState, ModelNotReady, Step
from demur.serve.contract.inputs import ModelInput
from demur.serve.contract.messages import Message
from demur.serve.deployments.hosts import EngineFailure, NoArtifact, NoDraws
from demur.serve.deployments.local_hosts import LocalHosts, NotAnswered
from demur.serve.telemetry.stages import TRACEPARENT
from demur.uncertainty.generation import Generation

logger = logging.getLogger("demur.deployments")


class RayHostClient:
    """A model host behind a Ray Serve handle."""

    def __init__(
        self,
        handle: DeploymentHandle,
        check: Callable[[], None],
        *,
        note: str = "",
        local: LocalHosts | None = None,
        called: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`check` raises `ModelNotReady` where it is known why no replica runs. `note` is added where the model has no
        artifact. `local` are hosts on this machine that decide without Ray's handle. `called` is told by which way a
        host has decided, `socket` or `handle`."""
        self._handle = handle
        self._streams = handle.options(stream=True)
        self._check = check
        self._note = note
        self._local = local
        self._called = called
        self._answers = False

    async def state(self) -> HostState:
        if not self._answers:
            await asyncio.to_thread(self._check)
        self._answers = False  # until it does: whoever waits may give up meanwhile
        try:
            state: HostState = await self._handle.state.remote()
        except RayError as error:
            raise ModelNotReady(f"the model's host does not answer: {type(error).__name__}") from error
        self._answers = True
        return state if state.artifact else replace(state, trouble=self._noted(state.trouble))

    def _noted(self, trouble: str) -> str:
        return f"{trouble}; {self._note}" if self._note else trouble

    async def decide(
        self, inputs: Sequence[ModelInput], groups: Sequence[str | None], draws: Sequence[int] | None
    ) -> list[ArtifactShare]:
        shares: list[ArtifactShare] | NoArtifact | NoDraws
        shares = await self._call("decide", _packed(inputs), groups, draws)
        if isinstance(shares, NoArtifact):
            raise ArtifactNotFound(self._noted(shares.why))
        if isinstance(shares, NoDraws):
            raise DrawsWanted(f"model host {self._handle.deployment_name}")
        return shares

    async def decide_next(self, inputs: Sequence[ModelInput], groups: Sequence[str | None], step: Step) -> DecidedRows:
        decided: DecidedRows | NoArtifact = await self._call("decide_next", _packed(inputs), groups, step)
        if isinstance(decided, NoArtifact):
            raise ArtifactNotFound(self._noted(decided.why))
        return decided

    async def _call(self, method: str, *arguments: Any) -> Any:
        """Call a host over a socket, else by the handle. A host that breaks off may have begun; to decide again does no
        harm, since nothing has been recorded."""
        if self._local:
            try:
                answer = await self._local.call(method, arguments, _trace())
            except NotAnswered as error:
                logger.debug("%s by the handle: %s", method, error)
            else:
                self._called("socket")
                return answer
        try:
            answer = await getattr(self._handle, method).remote(*arguments, **_trace())
        except BackPressureError as error:
            raise Overloaded("the model's host is full; try again a little later") from error
        self._called("handle")
        return answer

    async def stream(
        self, value: ModelInput, group: str | None, draw: int
    ) -> AsyncGenerator[str | ArtifactShare, None]:
        async with aclosing(_until_left(self._streams.stream.remote(value, group, draw))) as items:
            async for item in items:
                if isinstance(item, NoArtifact):
                    raise ArtifactNotFound(self._noted(item.why))
                yield item

    async def complete(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        try:
            generations: list[Generation] | EngineFailure = await self._handle.complete.remote(messages, asking)
        except BackPressureError as error:
            raise Overloaded("the model's host is full; try again a little later") from error
        if isinstance(generations, EngineFailure):
            raise EngineFailed(generations.why)
        return generations

    async def pieces(self, messages: Sequence[Message], asking: Asking) -> AsyncGenerator[Piece, None]:
        async with aclosing(_until_left(self._streams.pieces.remote(messages, asking))) as pieces:
            async for piece in pieces:
                if isinstance(piece, EngineFailure):
                    raise EngineFailed(piece.why)
                yield piece


def _packed(inputs: Sequence[ModelInput]) -> Sequence[ModelInput]:
    """Images of one size and one type as one array, which travels many times as quickly as so many small ones."""
    first = inputs[0]
    if isinstance(first, np.ndarray) and all(
        isinstance(one, np.ndarray) and one.shape == first.shape and one.dtype == first.dtype for one in inputs
    ):
        return np.stack(inputs)  # type: ignore[arg-type, return-value]  # a row of it is an input
    return inputs


def _trace() -> dict[str, str]:
    """The trace that a call to a host belongs to; it is told of one only where there is one."""
    traceparent = TRACEPARENT.get()
    return {"traceparent": traceparent} if traceparent else {}


async def _until_left(response: DeploymentResponseGenerator) -> AsyncGenerator[Any, None]:
    """What a replica yields. When nobody wants more of it, the replica is told to stop."""
    ended = False
    try:
        async for item in response:
            yield item
        ended = True
    except BackPressureError as error:
        raise Overloaded("the model's host is full; try again a little later") from error
    finally:
        if not ended:
            response.cancel()
