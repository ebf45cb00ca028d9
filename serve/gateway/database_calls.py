"""Calls of the database in threads of their own, so that no caller waits for a database that has stopped."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from demur.traffic.database import Database, DatabaseUnavailable, described

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE_SECONDS = 10.0
"""How long a call may take. After that its callers are told that it did not succeed, although it still may: a record
of which nobody knows the id does no harm."""


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
        in "has not ...". A group that finds all threads busy waits for one, and that counts towards its patience."""
        self._database = database
        self._function = function
        self._done = done
        self._patience_seconds = patience_seconds
        self._most = threads
        self._threads = ThreadPoolExecutor(threads, function.__name__)
        self._stuck: set[asyncio.Future[list[Result]]] = set()

    async def call(self, group: list[Item]) -> list[Result]:
        """Return what came of each. Raises `DatabaseUnavailable` also where that takes too long, and then at once for
        as long as no thread is free."""
        if len(self._stuck) >= self._most:
            raise self._too_slow()
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._function, self._database, group)
        done, _ = await asyncio.wait([work], timeout=self._patience_seconds)
        if not done:
            self._stuck.add(work)
            work.add_done_callback(self._let_go)
            raise self._too_slow()
        return work.result()

    def _let_go(self, work: "asyncio.Future[list[Result]]") -> None:
        self._stuck.discard(work)
        work.cancelled() or work.exception()  # nobody waits for it any more, and nobody need hear of it

    def _too_slow(self) -> DatabaseUnavailable:
        return DatabaseUnavailable(
            f"PostgreSQL at {described(self._database.dsn)} has not {self._done} within"
            f" {self._patience_seconds:g} s; see what holds it up"
        )
