"""What people wrote in the place of replies that are wrong. It goes with the reply, whatever deletes that."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from demur.traffic.database import Connection

OUTCOME = (
    "o.label, o.source, o.author, o.created_at, c.text, o.codes from outcomes o"
    " left join corrected_replies c on c.outcome_id = o.id"
)
"""The columns of an `Outcome`, and where they come from."""


def hold_replies(connection: Connection, record_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of the records whose replies are still kept. None of them is deleted before the transaction ends."""
    rows = connection.execute(
        "select record_id from payloads where record_id = any(%s) order by record_id for key share", (list(record_ids),)
    )
    return {row[0] for row in rows.fetchall()}


def keep(connection: Connection, texts: Mapping[int, tuple[UUID, str]]) -> set[int]:
    """Keep the record and the text of these outcomes, by their number. Return the outcomes whose reply is still kept:
    the texts of the others are left out."""
    outcomes = list(texts)
    rows = connection.execute(
        "insert into corrected_replies (outcome_id, record_id, text)"
        " select told.outcome_id, told.record_id, told.text"
        " from unnest(%s::bigint[], %s::uuid[], %s::text[]) told (outcome_id, record_id, text)"
        " where exists (select from payloads p where p.record_id = told.record_id) returning outcome_id",
        (outcomes, [texts[one][0] for one in outcomes], [texts[one][1] for one in outcomes]),
    )
    return {row[0] for row in rows.fetchall()}
