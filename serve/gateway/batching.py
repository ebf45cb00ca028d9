"""Greedy gathering: what has queued up while the last batch was away goes out as the next one.

There is no waiting time. Alone, an item leaves at once; under load, batches fill by themselves. The gateway uses it
twice, for calls to a model and for commits. A host of a language model judges together what its engine ends together.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Overloaded(RuntimeError):
    """More is waiting than may wait. Try again a little later, or add replicas."""


class GreedyBatcher(Generic[Item, Result]):
    """Sends items in batches and gives every caller the results of its own items, in order.

    `send` gets up to `max_size` items and returns as many results; if it raises, all callers of that batch see the
    error. At most `in_flight` batches are away at a time, and at most `max_queued` items wait.
    """

    def __init__(
        self,
        send: Callable[[list[Item]], Awaitable[Sequence[Result]]],
        *,
        max_size: int,
        in_flight: int,
        max_queued: int,
        name: str,
    ) -> None:
        self._send = send
        self._max_size = max_size
        self._free = in_flight
        self._max_queued = max_queued
        self._name = name
        self._waiting: deque[tuple[list[Item], asyncio.Future[list[Result]]]] = deque()
        self._queued = 0
        self._pump_is_due = False
        self._away: set[asyncio.Task[None]] = set()

    @property
    def queued(self) -> int:
        """Items that have not left yet."""
        return self._queued

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """Return one result for each item. Items of one call may travel in several batches."""
        if self._queued + len(items) > self._max_queued:
            raise Overloaded(f"{self._queued} items wait for {self._name} already; try again a little later")
        chunks = [list(items[at : at + self._max_size]) for at in range(0, len(items), self._max_size)]
        futures = [self._enqueue(chunk) for chunk in chunks]
        if len(futures) == 1:
            return await futures[0]
        return [result for part in await asyncio.gather(*futures) for result in part]

    def _enqueue(self, chunk: list[Item]) -> "asyncio.Future[list[Result]]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Result]] = loop.create_future()
        self._waiting.append((chunk, future))
        self._queued += len(chunk)
        if not self._pump_is_due:  # at the end of this turn of the loop, so that what comes together goes together
            self._pump_is_due = True
            loop.call_soon(self._pump)
        return future

    def _pump(self) -> None:
        self._pump_is_due = False
        while self._free and self._waiting:
            batch = []
            size = 0
            while self._waiting and size + len(self._waiting[0][0]) <= self._max_size:
                chunk, future = self._waiting.popleft()
                self._queued -= len(chunk)
                if not future.done():  # its caller went away while it waited
                    batch.append((chunk, future))
                    size += len(chunk)
            if batch:
                self._free -= 1
                task = asyncio.get_running_loop().create_task(self._deliver(batch))
                self._away.add(task)
                task.add_done_callback(self._away.discard)

    async def _deliver(self, batch: list[tuple[list[Item], "asyncio.Future[list[Result]]"]]) -> None:
        try:
            results = await self._send([item for chunk, _ in batch for item in chunk])
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
        finally:
            self._free += 1
            self._pump()


class Together(Generic[Item, Result]):
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
