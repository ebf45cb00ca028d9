"""The thread that commits: one group of records at a time, and no caller waits for a database that has stopped."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from demur.traffic.database import Database, DatabaseUnavailable, described

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE_SECONDS = 10.0
"""How long a commit may take. After that its callers are told that it did not succeed, although it still may: a record
of which nobody knows the id does no harm."""


class Committer(Generic[Item, Result]):
    """Writes groups of records, in a thread of its own, so that slow reads never keep a commit waiting."""

    def __init__(
        self,
        database: Database,
        write: Callable[[Database, list[Item]], list[Result]],
        *,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """`write` writes a group and returns what came of each, or raises `DatabaseUnavailable`."""
        self._database = database
        self._write = write
        self._patience_seconds = patience_seconds
        self._thread = ThreadPoolExecutor(1, "commit")
        self._stuck: asyncio.Future[list[Result]] | None = None

    async def commit(self, group: list[Item]) -> list[Result]:
        """Write them. Raises `DatabaseUnavailable` also where that takes too long, and then at once until it has
        ended."""
        if self._stuck is not None:
            if not self._stuck.done():
                raise self._too_slow()
            self._stuck = None
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._thread, self._write, self._database, group)
        done, _ = await asyncio.wait([work], timeout=self._patience_seconds)
        if not done:
            self._stuck = work
            work.add_done_callback(_look_at)
            raise self._too_slow()
        return work.result()

    def _too_slow(self) -> DatabaseUnavailable:
        return DatabaseUnavailable(
            f"PostgreSQL at {described(self._database.dsn)} has not written a record within"
            f" {self._patience_seconds:g} s; see what holds it up"
        )


def _look_at(work: "asyncio.Future[list[Result]]") -> None:
    work.cancelled() or work.exception()  # nobody waits for it any more, and nobody need hear of it
