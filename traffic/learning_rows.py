"""What people said of replies, as rows for whoever trains a language model: preference pairs and conversations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args
from uuid import UUID

from demur.traffic.database import Connection
from demur.traffic.outcomes import THE_ONE_OF_R, Precedence, listed

LearningForm = Literal["pairs", "training"]
FORMS: tuple[LearningForm, ...] = get_args(LearningForm)

AT_ONCE = 200
"""Rows that are fetched together."""

JUDGED = f"""
select r.id, p.input, p.reply, counts.label, c.text, counts.codes
  from records r join payloads p on p.record_id = r.id
  join lateral {THE_ONE_OF_R} one on true
  join outcomes counts on counts.id = one.id
  left join corrected_replies c on c.outcome_id = one.id
 where r.model = %(model)s and p.reply is not null
   and (%(since)s::timestamptz is null or r.created_at >= %(since)s)
   and (%(until)s::timestamptz is null or r.created_at < %(until)s)
   and (%(records)s::uuid[] is null or r.id = any(%(records)s::uuid[]))
 order by r.id
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningRow:
    """One row, and the record that it is of."""

    record_id: UUID
    content: dict[str, Any]


def learning_rows(
    connection: Connection,
    model: str,
    form: LearningForm,
    *,
    precedence: Precedence,
    since: datetime | None = None,
    until: datetime | None = None,
    records: Sequence[UUID] | None = None,
) -> Iterator[LearningRow]:
    """Yield what the outcomes that count say of a model's replies, in the order of the records.

    `pairs`: of each reply that somebody corrected, the prompt, the text that was `chosen` and the one that was
    `rejected`, with the codes of what was wrong. `training`: conversations that end with the corrected text, or with
    the reply itself where it is right. Records whose input was erased or had its time are left out, and so are wrong
    replies that nobody corrected. It takes as long as whoever reads it; memory does not grow with the rows.
    """
    told = {
        "model": model,
        "precedence": listed(precedence),
        "since": since,
        "until": until,
        "records": None if records is None else list(records),
    }
    with connection.cursor(name="learning_rows") as cursor:
        cursor.itersize = AT_ONCE
        cursor.execute(JUDGED, told)
        for record_id, value, reply, label, text, codes in cursor:
            prompt = messages_of(value)
            content = None if prompt is None else _content(form, prompt, reply["text"], label, text, codes)
            if content is not None:
                yield LearningRow(record_id=record_id, content={"id": str(record_id), **content})


def messages_of(value: Any) -> list[dict[str, Any]] | None:
    """Return an input as the messages of a conversation; None where it is none."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    messages = value.get("messages") if isinstance(value, dict) else None
    return messages if isinstance(messages, list) else None


def _content(
    form: LearningForm, prompt: list[dict[str, Any]], reply: str, label: Any, text: str | None, codes: list[str] | None
) -> dict[str, Any] | None:
    if form == "training":
        best = reply if label == "right" else text
        return None if best is None else {"messages": [*prompt, _said(best)]}
    if text is None:
        return None
    return {"prompt": prompt, "chosen": [_said(text)], "rejected": [_said(reply)], "codes": codes or []}


def _said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}
