"""The stages `finish` and `commit` together: rows that were decided become records on disk."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from demur.serve.contract.batching import GreedyBatcher, Overloaded
from demur.serve.contract.commit import BatchWriting, CommitOutcome, ToWrite
from demur.serve.contract.rows import ModelRow, PendingRow, RowOutcome
from demur.serve.gateway import journal
from demur.serve.gateway.database_calls import DatabaseCalls
from demur.serve.gateway.finish import Finisher
from demur.serve.gateway.redaction import Redaction, RedactionFailed
from demur.serve.gateway.upstream import UpstreamProblem, problem_of
from demur.serve.telemetry.stages import stage
from demur.serve.telemetry.telemetry import Queue, Telemetry
from demur.traffic.database import Database, DatabaseUnavailable
from demur.traffic.record import FailedRequest
from demur.uncertainty.generation import Outage

COMMIT_SIZE = 1024
MOST_COMMITS = 64 * COMMIT_SIZE


class Writer:
    """Writes what was decided, in groups."""

    def __init__(
        self,
        finisher: Finisher,
        database: Database,
        redaction: Redaction | None,
        *,
        clock: Callable[[], datetime],
        telemetry: Telemetry,
    ) -> None:
        self._finisher = finisher
        self._redaction = redaction
        self._clock = clock
        self._telemetry = telemetry
        self._database_calls = DatabaseCalls(database, journal.commit, done="written a record")
        self._commits: GreedyBatcher[ToWrite, list[CommitOutcome]] = GreedyBatcher(
            self._commit,
            max_size=COMMIT_SIZE,
            in_flight=1,
            max_queued=MOST_COMMITS,
            name="the database",
            weigh=len,
        )
        self._failures: GreedyBatcher[FailedRequest, None] = GreedyBatcher(
            DatabaseCalls(database, journal.note_failures, done="written a record").call,
            max_size=COMMIT_SIZE,
            in_flight=1,
            max_queued=MOST_COMMITS,
            name="the database",
        )

    def queue(self) -> Queue:
        """What waits to be written now."""
        return "commits", "", self._commits.queued, MOST_COMMITS

    async def write_batch(self, pending: Sequence[PendingRow], rows: Sequence[ModelRow]) -> list[RowOutcome]:
        """Write together what was decided together. What another model is to be asked about is left open, because it
        would keep its neighbours waiting; so is everything where a commit is to be a span of one request."""
        if self._telemetry.traces:
            return [RowOutcome(row) for row in rows]
        ended = [at for at, row in enumerate(rows) if not row.escalates]
        written = await self._write_or_each([pending[at] for at in ended], [rows[at] for at in ended])
        outcomes = [RowOutcome(row) for row in rows]
        for at, done in zip(ended, written, strict=True):
            outcomes[at].done = done
        return outcomes

    async def _write_or_each(self, pending: Sequence[PendingRow], rows: Sequence[ModelRow]) -> list[CommitOutcome]:
        """Write rows together. If that fails, write each alone: one of them may be to blame, and the others do not pay
        for it. What is on disk already is written again, which changes nothing."""
        try:
            return await self.write(pending, rows)
        except DatabaseUnavailable:
            raise
        except Overloaded as error:  # none of them is to blame, and each try moves the control of the model
            return [error] * len(rows)
        except Exception as error:
            if len(rows) == 1:
                return [error]
            return [
                done for one, row in zip(pending, rows, strict=True) for done in await self._write_or_each([one], [row])
            ]

    async def write(self, pending: Sequence[PendingRow], rows: Sequence[ModelRow]) -> list[CommitOutcome]:
        """Turn what was said into records and cases, and return what is on disk of them. Of requests about which no
        model could be asked, and whose callers are to be told, write that, and return the error."""
        if any(row.outage is not None for row in rows):
            return await self._write_and_fail(pending, rows)
        with self._finisher.room.places() as places:
            finished = self._finisher.finish(pending, rows, places, self._clock(), in_columns=not self._redaction)
            items = finished.items
            with stage("commit"):
                submit = self._commits.submit
                committed = await (self._redaction.commit(items, submit) if self._redaction else submit(items))
            places.lost = sum(_cases_lost(item, done) for item, done in zip(items, committed, strict=True))
        return finished.outcomes(committed)

    async def _write_and_fail(self, pending: Sequence[PendingRow], rows: Sequence[ModelRow]) -> list[CommitOutcome]:
        now = self._clock()
        failures: list[FailedRequest] = []
        problems: list[UpstreamProblem] = []
        for one, row in zip(pending, rows, strict=True):
            if row.outage is not None:
                problem = problem_of(one.request.model, row.outage, passed_to=one.passes_to)
                problems.append(problem)
                failures.append(_failure(one, row.outage, problem, now))
        if self._redaction:  # an endpoint may repeat what it was sent
            failures = await asyncio.to_thread(_redacted, self._redaction, failures)
        with stage("commit"):
            await self._failures.submit(failures)
        left = [(one, row) for one, row in zip(pending, rows, strict=True) if row.outage is None]
        written = iter(await self.write([one for one, _ in left], [row for _, row in left]))
        failed = iter(problems)
        return [next(written) if row.outage is None else next(failed) for row in rows]

    async def _commit(self, items: list[ToWrite]) -> list[list[CommitOutcome]]:
        began = time.perf_counter()
        try:
            results = await self._database_calls.call(items)
        except Exception:
            self._telemetry.not_committed()
            raise
        self._telemetry.committed(items, results, time.perf_counter() - began)
        return results


def _cases_lost(item: ToWrite, outcomes: Sequence[CommitOutcome]) -> int:
    """How many of the cases of an item were not written, as is known."""
    asked = item.cases if isinstance(item, BatchWriting) else range(len(item.new_cases()))
    return sum(isinstance(done := outcomes[row], Exception) or done.replayed for row in asked)


def _failure(pending: PendingRow, outage: Outage, problem: UpstreamProblem, now: datetime) -> FailedRequest:
    return FailedRequest(
        id=pending.id,
        created_at=now,
        model=pending.request.model,
        group=pending.request.group,
        status=problem.status,
        reason=outage.why,
        retry_after=outage.retry_after,
        passed_to=problem.passed_to,
        request_id=pending.visit.request_id if pending.visit else None,
    )


def _redacted(redaction: Redaction, failures: Sequence[FailedRequest]) -> list[FailedRequest]:
    """Return failures without what is taken out of everything that is stored. A reason that cannot be redacted is left
    out."""
    redacted = []
    for failure in failures:
        try:
            reason = str(redaction.redacted(failure.reason))
        except RedactionFailed:
            reason = "left out, because it could not be redacted"
        redacted.append(replace(failure, reason=reason))
    return redacted
