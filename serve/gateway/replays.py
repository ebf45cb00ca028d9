"""What was answered before under Idempotency-Keys: looked up for all requests together that come meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass

from demur.serve.contract.batching import GreedyBatcher
from demur.serve.contract.commit import CommitResult
from demur.serve.gateway import journal
from demur.serve.gateway.database_calls import PATIENCE_SECONDS, DatabaseCalls
from demur.serve.telemetry.telemetry import Queue
from demur.traffic.database import Database
from demur.traffic.log import KeyReused
from demur.traffic.record import KeyUse

LOOKUP_SIZE = 1024
"""Rows that are looked up together at most, but for a request that has more."""

AT_A_TIME = 2
MOST_LOOKUPS = 2**16


@dataclass(frozen=True, slots=True)
class LookUp:
    """A key of one request, and for how many rows it stands."""

    use: KeyUse
    rows: int

    def __len__(self) -> int:
        return self.rows


class Replays:
    """Looks for what a retry was answered before."""

    def __init__(self, database: Database, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._calls: DatabaseCalls[KeyUse, dict[int, CommitResult] | KeyReused] = DatabaseCalls(
            database,
            journal.replays,
            done="looked up an Idempotency-Key",
            threads=AT_A_TIME,
            patience_seconds=patience_seconds,
        )
        self._lookups: GreedyBatcher[LookUp, dict[int, CommitResult] | KeyReused] = GreedyBatcher(
            self._look_up,
            max_size=LOOKUP_SIZE,
            in_flight=AT_A_TIME,
            max_queued=MOST_LOOKUPS,
            name="the look-up of their Idempotency-Keys",
            weigh=len,
        )

    async def of(self, use: KeyUse, *, rows: int = 1) -> dict[int, CommitResult]:
        """What was answered under this key, by position, to a request of so many rows. Raises `KeyReused` if that was
        for another input, `DatabaseUnavailable`, and `Overloaded`."""
        (found,) = await self._lookups.submit([LookUp(use, rows)])
        if isinstance(found, KeyReused):
            raise found
        return found

    def queue(self) -> Queue:
        """What waits to be looked up now."""
        return "keys", "", self._lookups.queued, MOST_LOOKUPS

    async def _look_up(self, asked: Sequence[LookUp]) -> list[dict[int, CommitResult] | KeyReused]:
        return await self._calls.call([one.use for one in asked])
