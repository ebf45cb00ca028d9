"""Calls of the database in threads of their own, so that no caller waits for a database that has stopped."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from demur.traffic.database import Database, DatabaseUnavailable, described

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE_SECONDS = 10.0
"""How long a call may take. After that its callers are told that it did not succeed, although it still may: a record
of which nobody knows the id does no harm."""


class DatabaseThreads:
    """A few threads that ask the database. For one event loop."""

    def __init__(
        self, database: Database, *, threads: int, name: str, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._database = database
        self._patience_seconds = patience_seconds
        self._most = threads
        self._threads = ThreadPoolExecutor(threads, name)
        self._free = threads
        self._stuck = 0
        self._waiting: deque[asyncio.Future[bool]] = deque()

    async def run(self, work: Callable[[Database], Result], *, done: str) -> Result:
        """Return what came of it. `done` are the words for it, as in "has not ...". Raises `DatabaseUnavailable` where
        that takes too long, the wait for a thread included, and at once for as long as every thread is stuck. What a
        thread has begun goes on where its caller stops waiting."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_seconds
        if not await self._turn(deadline):
            raise self._too_slow(done)
        try:
            running = loop.run_in_executor(self._threads, _ended_well, work, self._database)
        except BaseException:  # no thread can be started
            self._give_back()
            raise
        call = _RunningCall(running, loop.create_future())
        stuck = loop.call_later(self._patience_seconds, self._is_stuck, call)
        late = loop.call_at(deadline, call.tell)
        running.add_done_callback(partial(self._ended, call, (stuck, late)))
        await call.known
        if not running.done():
            raise self._too_slow(done)
        return running.result()

    async def _turn(self, deadline: float) -> bool:
        """Wait for a thread; False where every one is stuck, or none is free before the deadline."""
        if self._stuck == self._most:
            return False
        if self._free:
            self._free -= 1
            return True
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(turn)
        late = loop.call_at(deadline, _give, turn, False)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self._give_back()
            raise
        finally:
            late.cancel()

    def _is_stuck(self, call: "_RunningCall") -> None:
        if call.running.done():
            return
        call.stuck = True
        self._stuck += 1
        while self._stuck == self._most and self._waiting:
            _give(self._waiting.popleft(), False)

    def _ended(
        self, call: "_RunningCall", timers: Sequence[asyncio.TimerHandle], running: "asyncio.Future[Any]"
    ) -> None:
        for timer in timers:
            timer.cancel()
        call.tell()
        self._stuck -= call.stuck
        running.cancelled() or running.exception()  # where nobody waits for it any more, nobody need hear of it
        self._give_back()

    def _give_back(self) -> None:
        """Let whoever has waited longest have the thread."""
        while self._waiting:
            if _give(self._waiting.popleft(), True):
                return
        self._free += 1

    def _too_slow(self, done: str) -> DatabaseUnavailable:
        return DatabaseUnavailable(
            f"PostgreSQL at {described(self._database.dsn)} has not {done} within"
            f" {self._patience_seconds:g} s; see what holds it up"
        )


@dataclass(slots=True)
class _RunningCall:
    """A call that a thread is at."""

    running: "asyncio.Future[Any]"
    known: "asyncio.Future[None]"
    """Done when it has ended, or its caller waits no longer."""

    stuck: bool = False
    """Whether the thread takes longer than it may."""

    def tell(self) -> None:
        """Wake its caller, if that still waits."""
        if not self.known.done():
            self.known.set_result(None)


def _give(turn: "asyncio.Future[bool]", has_thread: bool) -> bool:
    """Tell who waits for a thread whether there is one; return whether they still waited."""
    if turn.done():
        return False
    turn.set_result(has_thread)
    return True


def _ended_well(work: Callable[[Database], Result], database: Database) -> Result:
    """Do the work. A future cannot hold a `StopIteration`, and would never end with one."""
    try:
        return work(database)
    except StopIteration as error:
        raise RuntimeError("the work of a thread ended with StopIteration") from error


class DatabaseCalls(Generic[Item, Result]):
    """A function that is called with groups of items, a few groups at a time."""

    def __init__(
        self,
        database: Database,
        function: Callable[[Database, list[Item]], list[Result]],
        *,
        done: str,
        threads: int = 1,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """`function` returns what came of each item, or raises `DatabaseUnavailable`. `done` are the words for it, as
        in "has not ..."."""
        self._function = function
        self._done = done
        self._threads = DatabaseThreads(
            database, threads=threads, name=function.__name__, patience_seconds=patience_seconds
        )

    async def call(self, group: list[Item]) -> list[Result]:
        """Return what came of each. Raises as `DatabaseThreads.run` does."""
        return await self._threads.run(lambda database: self._function(database, group), done=self._done)
