"""Which records need no more waiting for: somebody has said what is true, or nobody is asked any more."""

from collections.abc import Sequence
from uuid import UUID

from traffic.database import Connection

ENDED = ("resolved", "expired", "withdrawn")
"""States from which a case does not come back."""


def ended_among(connection: Connection, ids: Sequence[UUID]) -> set[UUID]:
    """Return those of the records that have an outcome, or whose review is over."""
    rows = connection.execute(
        "select record_id from outcomes where record_id = any(%(ids)s) union"
        " select record_id from review_items where record_id = any(%(ids)s) and status = any(%(ended)s)",
        {"ids": list(ids), "ended": list(ENDED)},
    )
    return {row[0] for row in rows.fetchall()}
