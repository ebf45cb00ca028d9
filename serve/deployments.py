"""The Ray Serve shells: a gateway, a host for each model, the console, the audits. They hold no logic of their own."""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from fastapi import FastAPI
from ray import serve as ray_serve
from ray.exceptions import RayError
from ray.serve.exceptions import BackPressureError
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator
from uuid_utils.compat import uuid7

from audit.retention import forget_records
from calibration_store.artifact import ArtifactRefused
from calibration_store.folder import ArtifactsUnreachable
from calibration_store.store import ArtifactNotFound, ArtifactStore
from review import outbox, queue
from serve.canary_watch import CanaryWatch
from serve.config.file import Config
from serve.console.desk import Desk
from serve.gateway.batching import Overloaded
from serve.gateway.handler import Handler
from serve.gateway.journal import open_database
from serve.gateway.road import HostState, ModelNotReady, Step
from serve.hosts.decided import Decided, Share
from serve.hosts.set_level import SetLevel
from serve.inputs import ModelInput
from serve.language.engine import Asking, EngineFailed, Message, Piece
from serve.webhooks import webhook_senders
from traffic.database import Database
from traffic.log import draw_key
from uncertainty.generation import Generation

log = logging.getLogger("demur.deployments")

REFRESH_SECONDS = 2.0
"""How often a host looks for what was promoted, or set as shadow or canary."""

WATCH_SECONDS = 5.0
"""How often it is looked whether canaries keep within their bounds."""

SWEEP_SECONDS = 1.0
"""How often it is looked whether leases ran out, answers settle and due times have passed."""

SEND_SECONDS = 1.0
"""How often it is looked what is due for a webhook."""

ALARM_SECONDS = 1.0
"""How often a gateway looks at what alarms hold."""

COUNT_SECONDS = 1.0
"""How often a gateway counts the open cases, where their number is limited."""

CONTROL_SECONDS = 1.0
"""How often a gateway writes, or learns, where the values stand that steer decisions; and a host the level of its
sets."""

TRAFFIC_SECONDS = 60.0
"""How often a gateway looks at what recent traffic was like."""

FORGET_SECONDS = 3600.0
"""How often inputs and records are looked for whose time is up, and deliveries that arrived long ago."""


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

    def __init__(self, name: str, config: Config) -> None:
        from serve.hosts.host import ModelHost  # brings torch, which the gateway and the console do without

        _log_plainly()
        self._one_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._model = ModelHost(name, config.models[name], ArtifactStore(config.artifacts), others=config.models)
        _every(REFRESH_SECONDS, self._refresh, name=f"{name}-artifacts")
        _follow_labels(name, config, self._model.set_level)

    async def state(self) -> HostState:
        return self._model.state()

    async def decide(
        self, inputs: Sequence[ModelInput], groups: Sequence[str | None], draws: Sequence[int]
    ) -> list[Share] | NoArtifact:
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._one_thread, self._model.decide, inputs, groups, draws
            )
        except ArtifactNotFound as error:
            return NoArtifact(str(error))

    async def decide_next(
        self, inputs: Sequence[ModelInput], groups: Sequence[str | None], step: Step
    ) -> Decided | NoArtifact:
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._one_thread, self._model.decide_next, inputs, groups, step
            )
        except (ArtifactNotFound, ArtifactRefused, ArtifactsUnreachable) as error:
            return NoArtifact(str(error))  # no fault of an input: asking again row by row would only take longer

    def _refresh(self) -> None:
        """Read and check artifacts here; only what needs the model is done in the model's thread."""
        self._model.refresh(lambda job: self._one_thread.submit(job).result())


class LanguageModelHost:
    """One replica of one language model. Its engine takes many batches at a time, in the replica's own loop."""

    async def __init__(self, name: str, config: Config) -> None:  # type: ignore[misc]  # Serve awaits it
        from serve.language.host import LanguageHost
        from serve.language.reviewed import reviewed_of

        _log_plainly()
        store = ArtifactStore(config.artifacts)
        self._model = await LanguageHost.started(
            name, config.models[name], store, others=config.models, reviewed=reviewed_of(config, name)
        )
        _every(REFRESH_SECONDS, self._model.refresh, name=f"{name}-artifacts")
        _follow_labels(name, config, self._model.set_level)

    async def check_health(self) -> None:
        """Asked by Serve, which replaces a replica that raises."""
        await self._model.check_health()

    async def state(self) -> HostState:
        return self._model.state()

    async def decide(
        self, inputs: Sequence[ModelInput], groups: Sequence[str | None], draws: Sequence[int]
    ) -> list[Share] | NoArtifact:
        try:
            return await self._model.decide(inputs, groups, draws)
        except ArtifactNotFound as error:
            return NoArtifact(str(error))

    async def decide_next(
        self, inputs: Sequence[ModelInput], groups: Sequence[str | None], step: Step
    ) -> Decided | NoArtifact:
        try:
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


class RayHostClient:
    """A model host behind a Ray Serve handle."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle
        self._streams = handle.options(stream=True)

    async def state(self) -> HostState:
        try:
            state: HostState = await self._handle.state.remote()
        except RayError as error:
            raise ModelNotReady(f"the model's host does not answer: {type(error).__name__}") from error
        return state

    async def decide(
        self, inputs: Sequence[ModelInput], groups: Sequence[str | None], draws: Sequence[int]
    ) -> list[Share]:
        try:
            shares: list[Share] | NoArtifact = await self._handle.decide.remote(inputs, groups, draws)
        except BackPressureError as error:
            raise Overloaded("the model's host is full; try again a little later") from error
        if isinstance(shares, NoArtifact):
            raise ArtifactNotFound(shares.why)
        return shares

    async def decide_next(self, inputs: Sequence[ModelInput], groups: Sequence[str | None], step: Step) -> Decided:
        try:
            decided: Decided | NoArtifact = await self._handle.decide_next.remote(inputs, groups, step)
        except BackPressureError as error:
            raise Overloaded("the model's host is full; try again a little later") from error
        if isinstance(decided, NoArtifact):
            raise ArtifactNotFound(decided.why)
        return decided

    async def stream(self, value: ModelInput, group: str | None, draw: int) -> AsyncGenerator[str | Share, None]:
        async with aclosing(_until_left(self._streams.stream.remote(value, group, draw))) as items:
            async for item in items:
                if isinstance(item, NoArtifact):
                    raise ArtifactNotFound(item.why)
                yield item

    async def complete(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        try:
            generations: list[Generation] | Failed = await self._handle.complete.remote(messages, asking)
        except BackPressureError as error:
            raise Overloaded("the model's host is full; try again a little later") from error
        if isinstance(generations, Failed):
            raise EngineFailed(generations.why)
        return generations

    async def pieces(self, messages: Sequence[Message], asking: Asking) -> AsyncGenerator[Piece, None]:
        async with aclosing(_until_left(self._streams.pieces.remote(messages, asking))) as pieces:
            async for piece in pieces:
                if isinstance(piece, Failed):
                    raise EngineFailed(piece.why)
                yield piece


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


@ray_serve.ingress()
class Gateway:
    """One replica of the HTTP gateway."""

    def __init__(self, config: Config, dsn: str, hosts: dict[str, DeploymentHandle]) -> None:
        _log_plainly()
        self._config = config
        self._database = open_database(dsn)
        with self._database.transaction() as connection:
            key = draw_key(connection)
        self._handler = Handler(
            config,
            {name: RayHostClient(handle) for name, handle in hosts.items()},
            self._database,
            clock=lambda: datetime.now(UTC),
            new_id=uuid7,
            draw_key=key,
        )
        self._handler.look_at_alarms()
        _every(ALARM_SECONDS, self._handler.look_at_alarms, name="alarms")
        self._handler.count_cases()
        _every(COUNT_SECONDS, self._handler.count_cases, name="counting")
        self._handler.keep_controls()
        _every(CONTROL_SECONDS, self._handler.keep_controls, name="control")
        self._handler.look_at_traffic()
        _every(TRAFFIC_SECONDS, self._handler.look_at_traffic, name="traffic")

    def __serve_build_asgi_app__(self) -> FastAPI:
        from serve.gateway.http import gateway_app

        return gateway_app(self._handler, max_body_bytes=self._config.limits.body_bytes)


@ray_serve.ingress()
class Console:
    """One replica of the pages for people."""

    def __init__(self, config: Config, dsn: str) -> None:
        _log_plainly()
        self._config = config
        self._database = open_database(dsn)
        watch = CanaryWatch(config, ArtifactStore(config.artifacts), self._database, clock=lambda: datetime.now(UTC))
        _every(FORGET_SECONDS, self._forget, name="forgetting")
        _every(WATCH_SECONDS, watch.look, name="canaries")
        _every(SWEEP_SECONDS, Desk(config, self._database).sweep, name="settling")
        senders = webhook_senders(config, self._database, clock=lambda: datetime.now(UTC), rng=np.random.default_rng())
        for sender in senders:
            _every(SEND_SECONDS, sender.send, name=f"webhook {sender.url}")

    def _forget(self) -> None:
        with self._database.transaction() as connection:
            forgotten = queue.forget_inputs(connection)
        if forgotten:
            log.info("%d inputs whose time was up are deleted", forgotten)
        with self._database.transaction() as connection:
            outbox.forget_delivered(connection)
        if days := self._config.keep_records_days:
            for gone in forget_records(self._database, before=datetime.now(UTC) - timedelta(days=days)):
                log.info(
                    "%d records of %s whose time was up are deleted, with %d outcomes and %d cases",
                    gone.records, gone.model, gone.outcomes, gone.cases,
                )  # fmt: skip

    def __serve_build_asgi_app__(self) -> Any:
        from serve.console.app import console_app

        return console_app(self._config, self._database)


@ray_serve.ingress()
class Audits:
    """One replica of the auditors' pages, which also makes the audits that are due."""

    def __init__(self, config: Config, dsn: str) -> None:
        from serve.audits.jobs import jobs  # brings what audits need, which gateway and hosts do without

        _log_plainly()
        self._config = config
        self._database = open_database(dsn)
        for job in jobs(config, self._database):
            _every(job.seconds, job.do, name=job.name)

    def __serve_build_asgi_app__(self) -> FastAPI:
        from serve.audits.app import audits_app

        return audits_app(self._config, self._database)


def _follow_labels(name: str, config: Config, level: SetLevel | None) -> None:
    """Where labels move the error level of a model's sets, learn it now and again and again."""
    if level is not None:
        database = Database(config.database, max_connections=1)
        level.learn(database)
        _every(CONTROL_SECONDS, lambda: level.learn(database), name=f"{name}-level")


def _every(seconds: float, job: Callable[[], object], *, name: str) -> None:
    """Do a job again and again beside everything else. One that fails is logged, and tried again next time."""

    def work() -> None:
        while True:
            time.sleep(seconds)
            try:
                job()
            except Exception:
                log.exception("%s failed; trying again in %g s", name, seconds)

    threading.Thread(target=work, name=name, daemon=True).start()


def _log_plainly() -> None:
    """Our own log, on standard error, from where Ray brings it to the terminal of `demur up` and into its files."""
    ours = logging.getLogger("demur")
    handler = logging.StreamHandler(sys.__stderr__)  # Serve puts its own log, kept quiet, in the place of sys.stderr
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False
