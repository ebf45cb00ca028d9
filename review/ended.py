"""Which records need no more waiting for: somebody has said what is true, or nobody is asked any more."""

from collections.abc import Sequence
from uuid import UUID

from demur.review.item import ENDED
from demur.traffic.database import Connection


def ended_among(connection: Connection, ids: Sequence[UUID]) -> set[UUID]:
    """Return those of the records that have an outcome, or whose review is over."""
    rows = connection.execute(
        "select record_id from outcomes where record_id = any(%(ids)s) union"
        " select id from review_items where id = any(%(ids)s) and status = any(%(ended)s)",
        {"ids": list(ids), "ended": [status.value for status in ENDED]},
    )
    return {row[0] for row in rows.fetchall()}
