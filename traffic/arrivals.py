"""What has come in about the decisions of one artifact since a moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from demur.traffic.database import Connection
from demur.traffic.outcomes import THE_ONE_OF_R, Precedence, listed
from demur.traffic.record import HELD_BY_ALARM, Answer


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrivedRecord:
    """A decision, as far as it takes to count it."""

    id: UUID
    created_at: datetime
    action: str
    """As the artifact decided it: what an alarm held was an answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledAnswer:
    """An answer whose truth is known."""

    prediction: Answer | None
    outcome: Answer
    label_probability: float
    source: str
    """Who told the outcome."""


def arrived(
    connection: Connection,
    model: str,
    artifact: str,
    *,
    since: datetime,
    until: datetime,
    after: ArrivedRecord | None,
    most: int,
) -> list[ArrivedRecord]:
    """The decisions of an artifact in [since, until) that come after one that is known already, in order of time: the
    first `most` of them."""
    rows = connection.execute(
        "select id, created_at, case when starts_with(reason, %(by_alarm)s) then 'answer' else action end from records"
        " where model = %(model)s and artifact = %(artifact)s and created_at >= %(since)s and created_at < %(until)s"
        " and (%(last_at)s::timestamptz is null or (created_at, id) > (%(last_at)s::timestamptz, %(last_id)s::uuid))"
        " order by created_at, id limit %(most)s",
        {
            "model": model,
            "artifact": artifact,
            "since": since if after is None else after.created_at,  # lets the index skip what is known
            "until": until,
            "most": most,
            "by_alarm": HELD_BY_ALARM,
            "last_at": None if after is None else after.created_at,
            "last_id": None if after is None else after.id,
        },
    ).fetchall()
    return [ArrivedRecord(id=row[0], created_at=row[1], action=row[2]) for row in rows]


def checked(
    connection: Connection, model: str, artifact: str, *, precedence: Precedence, since: datetime
) -> Sequence[LabelledAnswer]:
    """The answers of an artifact since then that were drawn for a label and have one, in the order in which their first
    labels came, each with the outcome that counts: it may have been corrected from elsewhere."""
    rows = connection.execute(
        "select r.prediction, o.label, r.label_probability, o.source from records r join lateral ("
        "   select min(id) as first from outcomes where record_id = r.id and source = 'review'"
        f" ) reviewed on reviewed.first is not null join lateral {THE_ONE_OF_R} o on true"
        " where r.model = %(model)s and r.artifact = %(artifact)s and r.created_at >= %(since)s"
        "   and r.action = 'answer' and r.label_probability > 0"
        " order by reviewed.first",
        {"model": model, "artifact": artifact, "since": since, "precedence": listed(precedence)},
    ).fetchall()
    return [LabelledAnswer(prediction=row[0], outcome=row[1], label_probability=row[2], source=row[3]) for row in rows]
