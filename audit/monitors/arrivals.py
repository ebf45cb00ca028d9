"""What has come in for a monitor since it last took something in: each thing once, however late it was committed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import nan
from typing import Any, Self
from uuid import UUID

from demur.audit.monitors.reference import ConfusionCount, UnlabelledRecord
from demur.traffic.database import Connection
from demur.traffic.outcomes import BEST_FIRST, Precedence, listed
from demur.traffic.record import HELD_BY_ALARM, Answer

SETTLED_SECONDS = 5.0
"""Records are looked at when they are this old: by then those that were decided before them are on record as well."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MonitorLabel:
    """The first word of the reviewers about an answered record."""

    outcome_id: int
    prediction: Answer | None
    truth: Answer
    """The outcome that counted when that word was spoken. What comes later changes nothing: it was final."""

    probability: float


@dataclass(frozen=True, kw_only=True)
class LabelCursor:
    """Which labels have been taken in. Ids of outcomes may become visible out of order: a transaction that began early
    can commit late. So it is noted at each look how far ids had come and which transactions were under way, and only
    when all of these have ended is everything up to there behind us."""

    settled: int = 0
    """Up to this id all labels are taken in, and none can appear any more."""

    beyond: tuple[int, ...] = ()
    """Those with a higher id that are taken in."""

    horizon: int = 0
    """How far ids had come when `open_before` was noted."""

    open_before: int | None = None
    """When no transaction before this one is under way any more, everything up to the horizon has appeared."""

    def as_json(self) -> dict[str, Any]:
        return {
            "settled": self.settled,
            "beyond": list(self.beyond),
            "horizon": self.horizon,
            "open_before": self.open_before,
        }


def label_cursor(document: Mapping[str, Any]) -> LabelCursor:
    """The cursor that `as_json` wrote down; of an empty document, the first one."""
    if "at" in document:  # one of labels in order of their records, which another round took in
        return LabelCursor()
    kept = {**document, "beyond": tuple(document.get("beyond", ()))}
    return LabelCursor(**kept)


@dataclass(frozen=True, kw_only=True)
class Labels:
    new: Sequence[MonitorLabel]
    cursor: LabelCursor
    """As it is once these are taken in."""

    more: bool
    """Whether there are others."""


def labels_after(
    connection: Connection,
    model: str,
    artifact: str,
    cursor: LabelCursor,
    *,
    counts_from: datetime,
    precedence: Precedence,
    most: int,
) -> Labels:
    """Return the answers of an artifact, decided since `counts_from`, that were drawn for a label and have got one."""
    row = connection.execute(
        "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint,"
        " pg_snapshot_xmax(pg_current_snapshot())::text::bigint, (select coalesce(max(id), 0) from outcomes)"
    ).fetchone()
    assert row is not None
    oldest_open, next_one, come_to = row
    rows = connection.execute(
        "select o.id, r.prediction, known.label, r.label_probability"
        " from outcomes o join records r on r.id = o.record_id join lateral (select label from outcomes"
        f"   where record_id = r.id and id <= o.id order by {BEST_FIRST} limit 1) known on true"
        " where o.id > %(settled)s and o.id <> all(%(beyond)s) and o.source = 'review'"
        "   and r.model = %(model)s and r.artifact = %(artifact)s and r.created_at >= %(counts_from)s"
        "   and r.action = 'answer' and r.label_probability > 0"
        "   and not exists (select from outcomes earlier where earlier.record_id = o.record_id"
        "     and earlier.source = 'review' and earlier.id < o.id)"
        " order by o.id limit %(most)s",
        {
            "settled": cursor.settled,
            "beyond": list(cursor.beyond),
            "model": model,
            "artifact": artifact,
            "counts_from": counts_from,
            "precedence": listed(precedence),
            "most": most,
        },
    ).fetchall()
    new = [MonitorLabel(outcome_id=row[0], prediction=row[1], truth=row[2], probability=row[3]) for row in rows]
    more = len(new) == most
    after = replace(cursor, beyond=(*cursor.beyond, *(one.outcome_id for one in new)))
    if cursor.open_before is None:
        if come_to > cursor.settled:
            after = replace(after, horizon=come_to, open_before=next_one)
    elif oldest_open >= cursor.open_before:
        settled = min(cursor.horizon, new[-1].outcome_id) if more else cursor.horizon
        after = replace(after, settled=settled, beyond=tuple(one for one in after.beyond if one > settled))
        if not more:
            after = replace(after, horizon=come_to, open_before=next_one if come_to > settled else None)
    return Labels(new=new, cursor=after, more=more)


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnAnswer:
    """An answer that was drawn for a label."""

    id: UUID
    at: datetime
    label: MonitorLabel | None
    """None while no reviewer has spoken."""

    probability: float
    closed: bool
    """Whether nobody will speak any more: the case has ended, or there is none."""


def drawn_after(
    connection: Connection,
    model: str,
    artifact: str,
    cursor: "RecordCursor",
    *,
    counts_from: datetime,
    precedence: Precedence,
    most: int,
) -> list[DrawnAnswer]:
    """Return the first `most` drawn answers of an artifact after the cursor, in order of time, of those that have
    settled, whether or not they are reviewed."""
    rows = connection.execute(
        "select r.id, r.created_at, first.id, r.prediction, known.label, r.label_probability,"
        "   q.id is null or q.ended_at is not null"
        " from records r left join review_items q on q.id = r.id"
        " left join lateral (select id from outcomes where record_id = r.id and source = 'review' order by id limit 1)"
        "   first on true"
        " left join lateral (select label from outcomes where record_id = r.id and id <= first.id"
        f"   order by {BEST_FIRST} limit 1) known on true"
        " where r.model = %(model)s and r.artifact = %(artifact)s and r.created_at >= %(since)s"
        "   and r.created_at < clock_timestamp() - make_interval(secs => %(settled)s)"
        "   and (%(at)s::timestamptz is null or (r.created_at, r.id) > (%(at)s::timestamptz, %(id)s::uuid))"
        "   and r.action = 'answer' and r.label_probability > 0"
        "   and (r.label_probability = 1 or q.id is not null or first.id is not null)"
        " order by r.created_at, r.id limit %(most)s",
        {
            "model": model,
            "artifact": artifact,
            "since": counts_from if cursor.at is None else max(cursor.at, counts_from),
            "settled": SETTLED_SECONDS,
            "at": cursor.at,
            "id": cursor.id,
            "precedence": listed(precedence),
            "most": most,
        },
    ).fetchall()
    return [
        DrawnAnswer(
            id=id,
            at=at,
            label=None
            if outcome is None
            else MonitorLabel(outcome_id=outcome, prediction=prediction, truth=truth, probability=probability),
            probability=probability,
            closed=closed,
        )
        for id, at, outcome, prediction, truth, probability, closed in rows
    ]


@dataclass(frozen=True, kw_only=True)
class RecordCursor:
    """The last record that was taken in, in order of time; None of both before the first."""

    at: datetime | None = None
    id: UUID | None = None

    def moved(self, to: "MonitorRecord | DrawnAnswer | None") -> Self:
        return self if to is None else replace(self, at=to.at, id=to.id)

    def as_json(self) -> dict[str, Any]:
        return {} if self.at is None else {"at": self.at.isoformat(), "id": str(self.id)}


def record_cursor(document: Mapping[str, Any]) -> RecordCursor:
    """The cursor that `as_json` wrote down."""
    if "at" not in document:
        return RecordCursor()
    return RecordCursor(at=datetime.fromisoformat(document["at"]), id=UUID(document["id"]))


@dataclass(frozen=True, kw_only=True, slots=True)
class MonitorRecord:
    id: UUID
    at: datetime
    seen: UnlabelledRecord
    probability: float
    """Of a label."""


ROW = (
    "id, created_at, action <> 'answer' and not starts_with(reason, %(by_alarm)s), confidence, prediction, scores,"
    " label_probability"
)


def records_after(
    connection: Connection, model: str, artifact: str, cursor: RecordCursor, *, counts_from: datetime, most: int
) -> list[MonitorRecord]:
    """Return the first `most` records of an artifact after the cursor, in order of time, of those that have settled."""
    rows = connection.execute(
        f"select {ROW} from records"
        " where model = %(model)s and artifact = %(artifact)s and created_at >= %(since)s"
        " and created_at < clock_timestamp() - make_interval(secs => %(settled)s)"
        " and (%(at)s::timestamptz is null or (created_at, id) > (%(at)s::timestamptz, %(id)s::uuid))"
        " order by created_at, id limit %(most)s",
        {
            "model": model,
            "artifact": artifact,
            "since": counts_from if cursor.at is None else cursor.at,  # lets the index skip what is known
            "settled": SETTLED_SECONDS,
            "at": cursor.at,
            "id": cursor.id,
            "most": most,
            "by_alarm": HELD_BY_ALARM,
        },
    ).fetchall()
    return [_record(row) for row in rows]


def latest_records(
    connection: Connection, model: str, artifact: str, *, after: datetime, most: int
) -> list[MonitorRecord]:
    """Return the latest `most` records of an artifact that were decided after a moment, the latest first."""
    rows = connection.execute(
        f"select {ROW} from records where model = %(model)s and artifact = %(artifact)s and created_at > %(after)s"
        " order by created_at desc limit %(most)s",
        {"model": model, "artifact": artifact, "after": after, "most": most, "by_alarm": HELD_BY_ALARM},
    ).fetchall()
    return [_record(row) for row in rows]


def lately_answered(connection: Connection, model: str, *, most: int) -> list[float | None]:
    """The confidences of the latest `most` answers of a model."""
    rows = connection.execute(
        "select confidence from records where model = %s and action = 'answer' order by created_at desc limit %s",
        (model, most),
    ).fetchall()
    return [row[0] for row in rows]


def confused(connection: Connection, model: str, artifact: str, *, most: int) -> list[ConfusionCount]:
    """How often single labels were predicted, and found by people, in the latest `most` drawn cases of a model that
    people have resolved: those of the artifact among them."""
    rows = connection.execute(
        "select prediction, truth, sum(1 / label_probability), count(*) from ("
        "  select r.artifact, r.prediction #>> '{}' as prediction, q.label #>> '{}' as truth, r.label_probability"
        "  from review_items q join records r on r.id = q.id"
        "  where q.ended_at is not null and q.status = 'resolved' and q.model = %(model)s and r.label_probability > 0"
        "    and json_typeof(q.label) = 'string' and json_typeof(r.prediction) = 'string'"
        "  order by q.ended_at desc, q.id limit %(most)s) latest"
        " where artifact = %(artifact)s group by prediction, truth",
        {"model": model, "artifact": artifact, "most": most},
    ).fetchall()
    return [ConfusionCount(predicted=row[0], true=row[1], weight=row[2], n=row[3]) for row in rows]


def _record(row: tuple[Any, ...]) -> MonitorRecord:
    id, at, held, confidence, prediction, scores, probability = row
    seen = UnlabelledRecord(
        confidence=nan if confidence is None else confidence, held=held, prediction=prediction, scores=scores
    )
    return MonitorRecord(id=id, at=at, seen=seen, probability=probability)
