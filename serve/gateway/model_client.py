"""The stage `decide` at one model: gather rows, ask the host, and hold what the model leaves undecided."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from math import inf

from demur.calibration_store.store import ArtifactNotFound
from demur.serve.config.file import ModelConfig
from demur.serve.contract.batching import GreedyBatcher, Overloaded
from demur.serve.contract.decided import ArtifactShare
from demur.serve.contract.hosts import DrawsWanted, HostClient, ModelNotReady, Step
from demur.serve.contract.inputs import InputSpec, ModelInput
from demur.serve.contract.rows import ModelRow, PendingRow, RowOutcome
from demur.serve.telemetry.logs import about
from demur.serve.telemetry.telemetry import Queue, Telemetry
from demur.traffic.draw import Draws
from demur.uncertainty.generation import Outage

logger = logging.getLogger("demur.gateway")


HELD = ", and what is unknown is held"

DRAWS_SECONDS = 60.0
"""For so long after a host wanted draws for its canary it is sent them; then it is asked once more without."""


Then = Callable[[list[PendingRow], list[ModelRow]], Awaitable[Sequence[RowOutcome]]]
"""What is done with a batch as soon as it is decided, while the next one leaves."""


async def wait(_: list[PendingRow], rows: list[ModelRow]) -> list[RowOutcome]:
    """Do nothing: whoever asked goes on with the rows."""
    return [RowOutcome(row) for row in rows]


class ModelClient:
    """One model as the gateway sees it."""

    def __init__(
        self,
        name: str,
        config: ModelConfig,
        host: HostClient,
        draws: Draws,
        telemetry: Telemetry | None = None,
        *,
        then: Then = wait,
    ) -> None:
        """`draws` settle which rows are a canary's. `then` is done with what comes of `decide`, before its callers go
        on."""
        self.name = name
        self.config = config
        self.host = host
        self._telemetry = telemetry or Telemetry()
        self._draws = draws
        self._draws_until = -inf
        """Until when the host is sent draws: for a while after it wanted them."""

        self._spec: InputSpec | None = None
        batch = config.host.batch
        self._one_at_a_time = not (config.host.is_language or config.host.is_endpoint)  # these take what comes at once

        def batcher(then: Then) -> GreedyBatcher[PendingRow, RowOutcome]:
            return GreedyBatcher(
                self._send_traced if self._telemetry.traces else self._send,
                then=then,
                max_size=batch.max_size,
                in_flight=batch.in_flight * config.host.fewest_replicas,
                alone=config.host.fewest_replicas if self._one_at_a_time else None,
                max_queued=batch.max_queued,
                name=f"model {name}",
            )

        self._first = batcher(then)
        self._later = batcher(wait)
        """For what other models escalate: nothing that goes wrong there touches those who ask this one first."""

        self._streams: set[asyncio.Task[None]] = set()

    def follow(self, replicas: int) -> None:
        """Send as many batches at a time as so many replicas of the host can take. Any thread may say so."""
        for one in (self._first, self._later):
            one.in_flight = self.config.host.batch.in_flight * max(1, replicas)
            one.alone = max(1, replicas) if self._one_at_a_time else one.in_flight

    async def decide(self, rows: Sequence[PendingRow]) -> list[RowOutcome]:
        """Return what came of each row that asks this model first. Raises `ArtifactNotFound` or `Overloaded`, and what
        `then` raises; any other failure of the model is a row without a decision."""
        return await self._first.submit(rows)

    async def decide_next(self, rows: Sequence[PendingRow]) -> list[ModelRow]:
        """Return what the model says of rows that another one escalated. Raises `Overloaded`."""
        return [outcome.row for outcome in await self._later.submit(rows)]

    async def spec(self) -> InputSpec:
        """What the model takes. Asked of the host once."""
        if self._spec is None:
            try:
                async with asyncio.timeout(self.config.host.timeout_seconds):  # `wait_for` may lose a cancellation
                    self._spec = (await self.host.state()).spec
            except TimeoutError:
                raise ModelNotReady(f"model {self.name!r} is still starting; try again a little later") from None
            except ModelNotReady as error:
                raise type(error)(f"model {self.name!r} is not served: {error}") from None
        return self._spec

    def queues(self) -> list[Queue]:
        """What waits for the model now."""
        most = self.config.host.batch.max_queued
        return [
            ("model", self.name, self._first.queued, most),
            ("later", self.name, self._later.queued, most),
            ("streams", self.name, len(self._streams), most),
        ]

    async def stream(self, asked: PendingRow) -> AsyncGenerator[str | ModelRow, None]:
        """Yield the reply of a language model as it is written, the first piece empty, and last what was decided.

        What goes wrong in the model is a row without a decision, as in a batch. Closing the generator stops the model.
        """
        if len(self._streams) >= self.config.host.batch.max_queued:
            raise Overloaded(f"{len(self._streams)} streams of model {self.name} are open; try again a little later")
        said: asyncio.Queue[str | ModelRow | Exception] = asyncio.Queue()
        listening = asyncio.create_task(
            self._listen(asked, said)
        )  # its time does not hang on how fast the caller reads
        self._streams.add(listening)
        listening.add_done_callback(self._streams.discard)
        item: str | ModelRow | Exception = ""
        try:
            while not isinstance(item, ModelRow):
                item = await said.get()
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            if not isinstance(item, ModelRow):
                listening.cancel()

    async def _listen(self, asked: PendingRow, said: "asyncio.Queue[str | ModelRow | Exception]") -> None:
        left = time.perf_counter()
        queued = (left - asked.at) * 1000
        seconds = self.config.host.timeout_seconds
        try:
            async with (
                asyncio.timeout(seconds),
                aclosing(self.host.stream(asked.input, asked.request.group, self._draw(asked))) as items,
            ):
                async for item in items:
                    if isinstance(item, ArtifactShare):
                        self._telemetry.asked(self.name, [queued], time.perf_counter() - left, [item])
                        said.put_nowait(self._row(item, 0, queued))
                        return
                    said.put_nowait(item)
            raise RuntimeError("the stream ended without a decision")
        except (Overloaded, ArtifactNotFound) as error:
            self._telemetry.failed(self.name, "overloaded" if isinstance(error, Overloaded) else "no_artifact")
            said.put_nowait(error)
            return
        except TimeoutError:
            self._telemetry.failed(self.name, "timeout")
            logger.error("model %s: a stream was not at its end in time", self.name)
            why = f"the model had not finished within {seconds:g} s"
            said.put_nowait(ModelRow(None, 0, f"{why}{HELD}", queued, outage=self._too_slow(why)))
            return
        except Exception:
            self._telemetry.failed(self.name, "failed")
            logger.exception("model %s failed in a stream", self.name)
            why = "the model failed on this input"
        said.put_nowait(ModelRow(None, 0, f"{why}{HELD}", queued))

    def _row(self, share: ArtifactShare, index: int, queued: float) -> ModelRow:
        """One row of a share. One about which the model could not be asked is held, and asked of no later model: that
        is not what its artifact was fitted for. Where callers are to be told, it says so."""
        outage = share.decided.outages[index] if share.decided.outages else None
        if outage is None:
            return ModelRow(share, index, "", queued)
        self._telemetry.failed(self.name, "outage")
        told = None if self.config.when_away == "hold" else outage
        return ModelRow(share, index, f"{share.decided.reasons[index]}{HELD}", queued, outage=told)

    def _too_slow(self, why: str) -> Outage | None:
        """A model that gave nothing in its time, where callers are to be told; None where that is held."""
        if self.config.when_away == "hold":
            return None
        what = f"gave no reply within {self.config.host.timeout_seconds:g} s"
        return Outage(what=what, why=why, passes=True)

    async def _send_traced(self, asked: list[PendingRow]) -> list[ModelRow]:
        assert self._telemetry.traces
        with self._telemetry.traces.batch(self.name, asked):
            return await self._send(asked)

    async def _send(self, asked: list[PendingRow]) -> list[ModelRow]:
        """Let the host decide. What a failing or slow model leaves undecided comes back as rows without a batch."""
        left = time.perf_counter()
        queued = [(left - item.at) * 1000 for item in asked]
        outage = None
        try:
            shares = await asyncio.wait_for(self._ask(asked), self.config.host.timeout_seconds)
        except Overloaded:
            self._telemetry.failed(self.name, "overloaded")
            raise
        except ArtifactNotFound as error:
            self._telemetry.failed(self.name, "no_artifact")
            steps = list(_by_step(asked))
            if steps == [None]:
                raise
            if len(steps) > 1:  # the artifacts of the other steps are not to blame
                return await self._send_apart(asked)
            logger.error("model %s cannot decide what others escalate: %s", self.name, error, extra=_of(asked))
            return [ModelRow(None, 0, f"it cannot decide: {error}", wait) for wait in queued]
        except TimeoutError:
            why = f"the model gave no answer within {self.config.host.timeout_seconds:g} s"
            outage = self._too_slow(why)
            self._telemetry.failed(self.name, "timeout")
            logger.error(
                "model %s: no answer within its time for a batch of %d", self.name, len(asked), extra=_of(asked)
            )
        except Exception:
            self._telemetry.failed(self.name, "failed")
            logger.exception("model %s failed on a batch of %d", self.name, len(asked), extra=_of(asked))
            if len(asked) > 1:  # one of them may be to blame; the others shall not be held for it
                return [row for rows in await asyncio.gather(*(self._send([item]) for item in asked)) for row in rows]
            why = "the model failed on this input"
        else:
            self._telemetry.asked(self.name, queued, time.perf_counter() - left, shares)
            rows = {at: ModelRow(share, i, "", queued[at]) for share in shares for i, at in enumerate(share.rows)}
            for share in shares:
                if share.decided.outages:
                    rows |= {at: self._row(share, i, queued[at]) for i, at in enumerate(share.rows)}
            return [rows[at] for at in range(len(asked))]
        return [ModelRow(None, 0, f"{why}{HELD}", wait, outage=outage) for wait in queued]

    async def _send_apart(self, asked: list[PendingRow]) -> list[ModelRow]:
        """Let the host decide, each step by itself."""
        by_step = _by_step(asked)
        parts = await asyncio.gather(*(self._send([asked[at] for at in members]) for members in by_step.values()))
        rows = {
            at: row
            for members, part in zip(by_step.values(), parts, strict=True)
            for at, row in zip(members, part, strict=True)
        }
        return [rows[at] for at in range(len(asked))]

    async def _ask(self, asked: list[PendingRow]) -> list[ArtifactShare]:
        """Ask about rows that come first to this model, and about those that others escalated, each step by itself."""
        by_step = _by_step(asked)
        if len(by_step) == 1:
            return await self._ask_together(asked[0].step, asked)
        parts = await asyncio.gather(
            *(self._ask_together(step, [asked[at] for at in members]) for step, members in by_step.items())
        )
        return [
            replace(share, rows=[members[i] for i in share.rows])
            for members, shares in zip(by_step.values(), parts, strict=True)
            for share in shares
        ]

    async def _ask_together(self, step: Step | None, asked: Sequence[PendingRow]) -> list[ArtifactShare]:
        inputs, groups = [item.input for item in asked], [item.request.group for item in asked]
        if step is None:
            return await self._decided(asked, inputs, groups)
        return [ArtifactShare(rows=list(range(len(asked))), decided=await self.host.decide_next(inputs, groups, step))]

    async def _decided(
        self, asked: Sequence[PendingRow], inputs: Sequence[ModelInput], groups: Sequence[str | None]
    ) -> list[ArtifactShare]:
        """What the host decides. Draws are made only where it wants them: most of the time there is no canary."""
        if time.monotonic() >= self._draws_until:
            try:
                return await self.host.decide(inputs, groups, None)
            except DrawsWanted:
                self._draws_until = time.monotonic() + DRAWS_SECONDS
        return await self.host.decide(inputs, groups, [self._draw(item) for item in asked])

    def _draw(self, asked: PendingRow) -> int:
        """Hangs on the Idempotency-Key where there is one, so that a retry meets the artifact of the first try."""
        return self._draws.of(f"{asked.use.key} {asked.use.position}" if asked.use else str(asked.id))


def _of(asked: Sequence[PendingRow]) -> dict[str, list[str]]:
    return about(item.visit for item in asked)


def _by_step(asked: Sequence[PendingRow]) -> dict[Step | None, list[int]]:
    """Where the rows of each step are."""
    by_step: dict[Step | None, list[int]] = {}
    for at, item in enumerate(asked):
        by_step.setdefault(item.step, []).append(at)
    return by_step
