"""Waiting for what becomes of predictions: one connection listens for everybody who waits at this gateway.

PostgreSQL tells of an outcome when its transaction has committed. Notices are lost while the connection is away, so
every few seconds it is also looked what has become of all that are waited for: a lost notice costs seconds.
"""

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID

import psycopg

from demur.review.ended import ended_among
from demur.serve.gateway.request_limit import RequestLimit
from demur.traffic.database import one_line
from demur.traffic.log import OUTCOMES_CHANNEL

log = logging.getLogger("demur.waiting")

MOST_WAITING = 2_000
"""Requests that wait at one gateway. Each of them keeps a connection of Serve's proxy, which takes 4,096 in all
(RAY_SERVE_HAPROXY_MAXCONN) and leaves whoever comes then waiting: half of them are left to predictions and people."""

LOOK_SECONDS = 2.0
RETRY_SECONDS = 0.5

TURN_SECONDS = 0.5
"""So long after the last one has stopped waiting the connection is closed."""

CONNECTION: dict[str, Any] = {
    "application_name": "demur-outcomes",
    "connect_timeout": 5,
    # an other end that is gone without a word is given up after 25 seconds at most
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class OutcomeWatch:
    """Who waits for which record. Its thread and its connection are there only while somebody waits."""

    def __init__(
        self, dsn: str, *, look_seconds: float = LOOK_SECONDS, most: int = MOST_WAITING, share: float = 1.0
    ) -> None:
        """One caller may wait for up to `share` of what others leave of `most`."""
        self._dsn = dsn
        self._look_seconds = look_seconds
        self._room = RequestLimit(most=most, share=share, what="requests wait at this gateway")
        self._lock = threading.Lock()
        self._waiters: defaultdict[UUID, set[asyncio.Future[None]]] = defaultdict(set)
        self._listener: threading.Thread | None = None
        self._closed = threading.Event()

    def __len__(self) -> int:
        """How many wait."""
        return self._room.taken

    @contextmanager
    def waiting(self, record_id: UUID, owner: str = "") -> Iterator[Callable[[float], Awaitable[None]]]:
        """Be told of news about a record from now on: look inside what is known of it, then await what is yielded,
        which comes back at the news or after so many seconds. Raises `Overloaded` when too many wait already, or too
        many of one caller."""
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._room.enter(owner)
            self._waiters[record_id].add(news)

        async def until_news(seconds: float) -> None:
            self._listen()
            await asyncio.wait([news], timeout=seconds)

        try:
            yield until_news
        finally:
            with self._lock:
                self._room.leave(owner)
                self._waiters[record_id].discard(news)
                if not self._waiters[record_id]:
                    del self._waiters[record_id]
            news.cancel()

    def close(self) -> None:
        """Wake everybody who waits, and let the thread end."""
        self._closed.set()
        with self._lock:
            waited_for = list(self._waiters)
        self._wake(waited_for)

    def _listen(self) -> None:
        with self._lock:
            if (self._listener is None or not self._listener.is_alive()) and not self._closed.is_set():
                self._listener = threading.Thread(target=self._work, name="outcomes", daemon=True)
                self._listener.start()

    def _work(self) -> None:
        """Listen until nobody waits, whatever happens to the database meanwhile."""
        away = False
        while True:
            try:
                with psycopg.connect(self._dsn, autocommit=True, **CONNECTION) as connection:
                    connection.execute(f"listen {OUTCOMES_CHANNEL}")
                    away, looked = False, float("-inf")
                    while ids := self._waited_for():
                        if (now := time.monotonic()) - looked >= self._look_seconds:
                            self._wake(ended_among(connection, ids))
                            looked = now
                        for notice in connection.notifies(timeout=TURN_SECONDS):
                            with suppress(ValueError):  # anybody may use the channel
                                self._wake([UUID(notice.payload)])
                return
            except psycopg.Error as error:
                if not away:  # once is enough for as long as it lasts
                    log.warning("outcomes cannot be listened for, and are looked for again: %s", one_line(error))
                away = True
                self._closed.wait(RETRY_SECONDS)
                if not self._waited_for():
                    return

    def _waited_for(self) -> list[UUID]:
        """Who is waited for; where nobody is, this thread is no longer the listener."""
        with self._lock:
            ids = [] if self._closed.is_set() else list(self._waiters)
            if not ids:
                self._listener = None
            return ids

    def _wake(self, ids: Collection[UUID]) -> None:
        with self._lock:
            found = [news for record_id in ids for news in self._waiters.get(record_id, ())]
        for news in found:
            with suppress(RuntimeError):  # its loop has ended, and nobody is left to be told
                news.get_loop().call_soon_threadsafe(_tell, news)


def _tell(news: "asyncio.Future[None]") -> None:
    if not news.done():
        news.set_result(None)
