"""The decisions of the last minutes, as a page follows them: never more of each model than a bound."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from demur.traffic.database import Connection

LATEST = """
select id, created_at, model, artifact, "group", prediction, confidence, action, reason,
       coalesce((timings ->> 'queued')::float8, 0) + coalesce((timings ->> 'model')::float8, 0) as milliseconds
  from records where model = %(model)s and created_at > %(since)s order by created_at desc limit %(most)s
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class LatestDecision:
    """One decision, without its input."""

    id: UUID
    created_at: datetime
    model: str
    artifact: str | None
    group: str | None
    prediction: Any
    confidence: float | None
    action: str
    reason: str
    milliseconds: float
    """In the queue of the model and in the model."""


def latest_decisions(connection: Connection, model: str, *, since: datetime, most: int) -> list[LatestDecision]:
    """Return the latest decisions of a model after `since`, the newest first."""
    with connection.cursor(row_factory=class_row(LatestDecision)) as cursor:
        return cursor.execute(LATEST, {"model": model, "since": since, "most": most}).fetchall()
