"""Greedy gathering: what has queued up while the last batch was away goes out as the next one.

There is no waiting time. Alone, an item leaves at once; under load, batches fill by themselves. The gateway uses it
for calls to a model, for commits and for look-ups of keys. A host of a language model judges together what its engine
ends together.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


LONGEST_RETRY_SECONDS = 30.0
PATIENCE_SECONDS = 0.02
"""How long a small batch waits to become as large as the last one."""

NOBODY = Context()
"""A batch is sent for many callers, so that nothing in it must think that it works for the first of them."""


class Overloaded(RuntimeError):
    """More is waiting than may wait. Try again a little later, or add replicas."""

    seconds = 0.0
    """After how long there may be room, as far as that can be guessed."""


class Pace:
    """How much was done lately, in which time: of this window and the one before."""

    WINDOW_SECONDS = 2.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before_since = self._since = clock()
        self._before = self._done = 0

    def note(self, n: int) -> None:
        """So many were done just now."""
        self._done += n
        if (now := self._clock()) - self._since > self.WINDOW_SECONDS:
            self._before, self._done = self._done, 0
            self._before_since, self._since = self._since, now

    def seconds_for(self, n: int) -> float:
        """In which time so many will be done if it goes on like that; bounded, also where nothing was done."""
        elapsed = self._clock() - self._before_since
        return min(LONGEST_RETRY_SECONDS, n * elapsed / max(self._before + self._done, 1))


class GreedyBatcher(Generic[Item, Result]):
    """Sends items in batches and gives every caller the results of its own items, in order.

    `send` gets up to `max_size` items and returns as many results; if it raises, all callers of that batch see the
    error. At most `in_flight` batches are away at a time, and at most `max_queued` items wait. `in_flight` may be set
    to another number at any time, by any thread: it is looked at before each batch. Where there is a `then`, it makes
    the callers' results of these, for those who still wait, and the next batch leaves meanwhile.

    Beside `alone` batches that are away, another one leaves only where it is as large as the last, or full: where the
    other end works on one at a time, a small one would wait there, and be the dearer for being small. After a moment
    it leaves all the same: what is away may never come back.

    `weigh` says for how many items one counts, where it stands for several.
    """

    def __init__(
        self,
        send: Callable[[list[Item]], Awaitable[Sequence[Any]]],
        *,
        then: Callable[[list[Item], list[Any]], Awaitable[Sequence[Result]]] | None = None,
        max_size: int,
        in_flight: int,
        alone: int | None = None,
        max_queued: int,
        name: str,
        weigh: Callable[[Item], int] | None = None,
    ) -> None:
        self._send = send
        self._weight: Callable[[Sequence[Item]], int] = (
            len if weigh is None else lambda items: sum(weigh(item) for item in items)
        )
        self._then = then
        self._max_size = max_size
        self.in_flight = in_flight
        self.alone = in_flight if alone is None else alone
        self._sent = 0  # batches that are away
        self._last = 0  # how large the last one is
        self._max_queued = max_queued
        self._name = name
        self._waiting: deque[tuple[list[Item], asyncio.Future[list[Result]]]] = deque()
        self._queued = 0
        self._pump_is_due = False
        self._patience: asyncio.TimerHandle | None = None
        self._away: set[asyncio.Task[None]] = set()
        self._pace = Pace()
        self._left = 0
        """Calls whose callers went away, perhaps while they waited here."""

    @property
    def queued(self) -> int:
        """Items that have not left yet."""
        return self._queued

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """Return one result for each item. Items of one call may travel in several batches."""
        weight = self._weight(items)
        if self._queued + weight > self._max_queued and not self._has_room_now(weight):
            error = Overloaded(f"{self._queued} items wait for {self._name} already; try again a little later")
            error.seconds = self._pace.seconds_for(self._queued)
            raise error
        chunks = [list(items)] if weight <= self._max_size else self._in_parts(items)
        futures = [self._enqueue(chunk) for chunk in chunks]
        try:
            if len(futures) == 1:
                return await futures[0]
            return [result for part in await asyncio.gather(*futures) for result in part]
        except asyncio.CancelledError:
            self._left += 1
            raise

    def _in_parts(self, items: Sequence[Item]) -> list[list[Item]]:
        """Parts that may each leave in one batch. What is too heavy for one is a part by itself."""
        parts: list[list[Item]] = []
        size = self._max_size
        for item in items:
            weight = self._weight([item])
            if size + weight > self._max_size:
                parts.append([])
                size = 0
            parts[-1].append(item)
            size += weight
        return parts

    def _has_room_now(self, n: int) -> bool:
        """Give free the places of those who went away, and say whether so many are free then."""
        if self._left:
            self._left = 0
            self._waiting = deque((chunk, future) for chunk, future in self._waiting if not future.done())
            self._queued = sum(self._weight(chunk) for chunk, _ in self._waiting)
        return self._queued + n <= self._max_queued

    def _enqueue(self, chunk: list[Item]) -> "asyncio.Future[list[Result]]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Result]] = loop.create_future()
        self._waiting.append((chunk, future))
        self._queued += self._weight(chunk)
        if not self._pump_is_due:  # at the end of this turn of the loop, so that what comes together goes together
            self._pump_is_due = True
            loop.call_soon(self._pump)
        return future

    def _pump(self, *, at_once: bool = False) -> None:
        """Send what may leave; `at_once` the first batch, however small it is."""
        self._pump_is_due = False
        while self._sent < self.in_flight and self._waiting:
            if not at_once and self._sent >= self.alone and self._queued < min(self._last, self._max_size):
                if self._patience is None:
                    self._patience = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._lose_patience)
                return
            at_once = False
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None
            batch: list[tuple[list[Item], asyncio.Future[list[Result]]]] = []
            size = 0
            while self._waiting:
                weight = self._weight(self._waiting[0][0])
                if batch and size + weight > self._max_size:
                    break
                chunk, future = self._waiting.popleft()
                self._queued -= weight
                if not future.done():  # its caller went away while it waited
                    batch.append((chunk, future))
                    size += weight
            if batch:
                self._sent += 1
                self._last = size
                task = asyncio.get_running_loop().create_task(self._deliver(batch), context=NOBODY.copy())
                self._away.add(task)
                task.add_done_callback(self._away.discard)

    def _lose_patience(self) -> None:
        self._patience = None
        self._pump(at_once=True)

    async def _deliver(self, batch: list[tuple[list[Item], "asyncio.Future[list[Result]]"]]) -> None:
        try:
            try:
                results = await self._send([item for chunk, _ in batch for item in chunk])
            finally:
                self._pace.note(sum(self._weight(chunk) for chunk, _ in batch))
                self._sent -= 1
                self._pump()
            if self._then is not None:
                batch, items, results = _of_those_who_wait(batch, results)
                results = await self._then(items, results) if items else []
            at = 0
            for chunk, future in batch:
                if not future.done():
                    future.set_result(list(results[at : at + len(chunk)]))
                at += len(chunk)
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise


def _of_those_who_wait(
    batch: list[tuple[list[Item], "asyncio.Future[list[Result]]"]], results: Sequence[Any]
) -> tuple[list[tuple[list[Item], "asyncio.Future[list[Result]]"]], list[Item], list[Any]]:
    """Without the parts of callers who went away."""
    waiting: list[tuple[list[Item], asyncio.Future[list[Result]]]] = []
    items: list[Item] = []
    kept: list[Any] = []
    at = 0
    for chunk, future in batch:
        if not future.done():
            waiting.append((chunk, future))
            items += chunk
            kept += results[at : at + len(chunk)]
        at += len(chunk)
    return waiting, items, kept


class TurnBatcher(Generic[Item, Result]):
    """Does in one go what is asked for in one turn of the loop.

    `do` gets the items of all callers, and returns as many results. If it raises, each item is done by itself, so that
    nobody sees another's error.
    """

    def __init__(self, do: Callable[[list[Item]], Sequence[Result]]) -> None:
        self._do = do
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []

    async def one(self, item: Item) -> Result:
        """Return the result of one item."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._all)
        self._waiting.append((item, future))
        return await future

    def _all(self) -> None:
        waiting = [(item, future) for item, future in self._waiting if not future.done()]
        self._waiting = []
        try:
            results = self._do([item for item, _ in waiting]) if waiting else []
        except Exception as error:
            if len(waiting) == 1:
                waiting[0][1].set_exception(error)
                return
            for one in waiting:
                self._waiting = [one]
                self._all()
            return
        for (_, future), result in zip(waiting, results, strict=True):
            future.set_result(result)
