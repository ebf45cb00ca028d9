"""What reviewers write in the place of replies that are wrong, and which of several texts counts.

A text goes with the reply that it corrects: the database deletes both together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from demur.review.item import Opinion
from demur.traffic.database import Connection
from demur.traffic.record import Answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Correction:
    """What comes of the texts and codes of several people."""

    text: str | None = None
    codes: tuple[str, ...] = ()
    author: str | None = None
    """Who wrote the text; None where nobody did."""


def keep(connection: Connection, case_id: UUID, token: int, text: str) -> None:
    """Keep the text of an opinion that has just been written."""
    connection.execute(
        "insert into review_corrections (case_id, token, record_id, text)"
        " select %(id)s, %(token)s, record_id, %(text)s from review_items where id = %(id)s",
        {"id": case_id, "token": token, "text": text},
    )


def is_reply_kept(connection: Connection, case_id: UUID) -> bool:
    """Whether the input and the reply that a case is about are still kept."""
    row = connection.execute(
        "select from review_items join payloads using (record_id) where id = %s", (case_id,)
    ).fetchone()
    return row is not None


def as_draft(connection: Connection, case_id: UUID, token: int) -> dict[str, Any] | None:
    """Return what was said with a text, as a draft holds it; None where there was no text."""
    row = connection.execute(
        "select label, comment, text, codes from review_opinions join review_corrections using (case_id, token)"
        " where case_id = %s and token = %s",
        (case_id, token),
    ).fetchone()
    if row is None:
        return None
    label, comment, text, codes = row
    return {"label": label, "reason": None, "comment": comment, "text": text, "codes": codes}


def forget(connection: Connection, record_ids: Sequence[UUID]) -> None:
    """Delete the texts that lie elsewhere than with the opinions about these records, whose replies are deleted: those
    in drafts, and those that webhooks were told."""
    if not record_ids:
        return
    cases = "(select id from review_items where record_id = any(%s))"
    connection.execute(
        "update review_drafts set content = (content::jsonb - 'text')::json"
        f" where case_id in {cases} and content::jsonb ? 'text'",
        (list(record_ids),),
    )
    connection.execute(
        f"update webhook_deliveries set body = null where case_id in {cases} and body is not null", (list(record_ids),)
    )


def differ(opinions: Sequence[Opinion], label: Answer) -> bool:
    """Whether those who said this label want different texts."""
    return len({one.text.strip() for one in _of_label(opinions, label) if one.text is not None}) > 1


def agreed(opinions: Sequence[Opinion], label: Answer | None) -> Correction:
    """Return what those come to who said this label: the text of whoever wrote one first, and all their codes."""
    told = [] if label is None else _of_label(opinions, label)
    first = next((one for one in told if one.text is not None), None)
    return Correction(
        text=first.text if first else None,
        codes=tuple(dict.fromkeys(code for one in told for code in one.codes or ())),
        author=first.reviewer if first else None,
    )


def _of_label(opinions: Sequence[Opinion], label: Answer) -> list[Opinion]:
    return [one for one in opinions if one.label == label]
