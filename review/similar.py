"""Decided cases that may be like one: the newest of its model, as far as a person may see them.

The function works inside the transaction it is given."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from demur.review.cases import IN_SCOPE, scope_values
from demur.review.item import Case, ReviewerScope
from demur.traffic.database import Connection
from demur.traffic.record import Answer

NEWEST = 200
"""Cases that are looked at."""

LARGEST_INPUT = 20_000
"""Bytes of an input that is compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecidedCase:
    """A case that was resolved to a label, and its input."""

    case_id: UUID
    label: Answer
    input: Any


def decided_lately(connection: Connection, case: Case, scope: ReviewerScope) -> list[DecidedCase]:
    """Return the `NEWEST` cases of the same model that were resolved to a label and lie in the scope, the newest first:
    those whose input is still kept, and none about the same prediction."""
    rows = connection.execute(
        "select id, label, input from ("
        f"  select id, record_id, label from review_items where ended_at is not null and status = 'resolved'"
        f"  and model = %(model)s and label is not null and record_id <> %(record)s and {IN_SCOPE}"
        "  order by ended_at desc, id limit %(newest)s) latest join payloads using (record_id)"
        " where pg_column_size(input) < %(largest)s and octet_length(input::text) < %(largest)s",
        {
            "model": case.model,
            "record": case.record_id,
            "newest": NEWEST,
            "largest": LARGEST_INPUT,
            **scope_values(scope),
        },
    ).fetchall()
    return [DecidedCase(case_id=case_id, label=label, input=input) for case_id, label, input in rows]
