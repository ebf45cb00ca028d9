"""A past for the queue, written straight into its tables: moves that were made at given times."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from demur.traffic import log
from demur.traffic.database import Connection, Database
from demur.traffic.record import Answer
from tests.conftest import entry

Said = tuple[str, Answer | None, bool | None]
"""Who, what (None: cannot tell), and whether they had seen the prediction (None: they were to decide)."""


class History:
    def __init__(self, database: Database) -> None:
        self._database = database

    def case(
        self,
        *,
        model: str = "digits",
        created: datetime,
        group: str | None = None,
        prediction: Answer | None = "7",
        confidence: float | None = 0.61,
        **rest: Any,
    ) -> UUID:
        """One record and its case; it is waiting, or resolved if it has ended, unless told otherwise."""
        made = entry(model=model, created_at=created, group=group, prediction=prediction, confidence=confidence)
        with self._database.transaction() as connection:
            log.append(connection, [made])
            return _write(connection, made.record.id, made.record.id, "held", model, created, group, confidence, **rest)

    def re_review(self, first: UUID, *, created: datetime, model: str = "digits", **rest: Any) -> UUID:
        with self._database.transaction() as connection:
            return _write(connection, uuid7(), first, "re_review", model, created, None, None, **rest)

    def undo(self, case: UUID, reviewer: str) -> None:
        with self._database.transaction() as connection:
            connection.execute(
                "update review_opinions set undone_at = at where case_id = %s and reviewer = %s", (case, reviewer)
            )

    def end_all(self, at: datetime) -> None:
        with self._database.transaction() as connection:
            connection.execute("set local session_replication_role = replica")
            connection.execute(
                "update review_items set status = 'withdrawn', ended_at = %s where ended_at is null", (at,)
            )


def _write(
    connection: Connection,
    case: UUID,
    record: UUID,
    kind: str,
    model: str,
    created: datetime,
    group: str | None,
    confidence: float | None,
    *,
    claimed: datetime | None = None,
    ended: datetime | None = None,
    status: str | None = None,
    label: Answer | None = "7",
    resolution: str = "agreed",
    due: datetime | None = None,
    opinions: int = 1,
    said: list[Said] | None = None,
) -> UUID:
    status = status or ("resolved" if ended else "waiting")
    resolved = status == "resolved"
    connection.execute("set local session_replication_role = replica")  # so that no trigger asks how it got there
    connection.execute(
        'insert into review_items (id, record_id, kind, model, status, created_at, "group", confidence, due_at,'
        " opinions_wanted, first_claimed_at, ended_at, label, resolution, claimed_by, lease_until)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            *(case, record, kind, model, status, created, group, confidence, due),
            *(opinions, claimed, ended),
            None if label is None or not resolved else orjson.dumps(label).decode(),
            resolution if resolved else None,
            *(("ada", created + timedelta(days=999)) if status == "claimed" else (None, None)),
        ),
    )
    at = ended or created
    for token, (reviewer, what, saw) in enumerate(said or [], start=1):
        connection.execute(
            "insert into review_opinions"
            " (case_id, token, at, reviewer, adjudicates, label, reason, saw_prediction, seconds)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                *(case, token, at, reviewer, saw is None),
                None if what is None else orjson.dumps(what).decode(),
                "blurred" if what is None else None,
                *(saw is not False, 10.0 * token),
            ),
        )
    return case
