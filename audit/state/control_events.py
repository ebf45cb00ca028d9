"""What moves a control by labels: requests, and the labels that were drawn for them, in order of time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from demur.traffic.database import Connection
from demur.traffic.outcomes import THE_ONE_OF_R, Precedence, listed
from demur.traffic.record import Answer


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedDecision:
    """A decision, as far as it takes to count it."""

    id: UUID
    at: datetime
    answered: bool
    predicted: bool
    """False where the model said nothing that could be right."""

    artifact: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlLabel:
    """A person has spoken about a record that was held, or drawn by chance: nobody else's word has a probability."""

    id: UUID
    at: datetime
    answered: bool
    prediction: Answer | None
    prediction_set: list[str]
    outcome: Answer
    probability: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadUntil:
    """The last request and the last label that were counted, each by its time and id; None before the first."""

    request: tuple[datetime, UUID] | None = None
    label: tuple[datetime, UUID] | None = None

    def as_json(self) -> dict[str, Any]:
        pairs = {"request": self.request, "label": self.label}
        return {name: [pair[0].isoformat(), str(pair[1])] for name, pair in pairs.items() if pair}

    @classmethod
    def from_json(cls, told: Mapping[str, Any] | None) -> "ReadUntil":
        return cls(**{name: (datetime.fromisoformat(at), UUID(last)) for name, (at, last) in (told or {}).items()})


@dataclass(frozen=True, kw_only=True)
class Portion:
    """Requests and labels up to one moment."""

    requests: list[CountedDecision] = field(default_factory=list)
    labels: list[ControlLabel] = field(default_factory=list)
    full: bool = False
    """Whether there may be more."""

    def in_order(self) -> Iterator[CountedDecision | ControlLabel]:
        """By time; of one moment requests first."""
        both: list[CountedDecision | ControlLabel] = [*self.requests, *self.labels]
        return iter(sorted(both, key=lambda one: (one.at, isinstance(one, ControlLabel), one.id)))

    def until(self, before: ReadUntil) -> ReadUntil:
        """How far one has read after these."""
        request, label = self.requests[-1:], self.labels[-1:]
        return ReadUntil(
            request=(request[0].at, request[0].id) if request else before.request,
            label=(label[0].at, label[0].id) if label else before.label,
        )


def portion(
    connection: Connection,
    model: str,
    *,
    precedence: Precedence,
    since: datetime,
    until: datetime,
    after: ReadUntil,
    most: int,
) -> Portion:
    """What came before `until` about records decided from `since` on, after what is known: about `most` each."""
    requests = _requests(connection, model, since, until, after, most)
    full = len(requests) == most
    horizon = requests[-1].at if full else until
    labels = _labels(connection, model, precedence, since, horizon, after, most)
    if len(labels) == most:
        full, horizon = True, labels[-1].at
        requests = [one for one in requests if one.at <= horizon]
    return Portion(requests=requests, labels=labels, full=full)


def _requests(
    connection: Connection, model: str, since: datetime, until: datetime, after: ReadUntil, most: int
) -> list[CountedDecision]:
    at, last = after.request or (None, None)
    rows = connection.execute(
        "select id, created_at, action = 'answer', prediction is not null, artifact from records"
        " where model = %(model)s and created_at >= %(since)s and created_at < %(until)s"
        " and (%(at)s::timestamptz is null or (created_at, id) > (%(at)s::timestamptz, %(last)s::uuid))"
        " order by created_at, id limit %(most)s",
        {"model": model, "since": at or since, "until": until, "at": at, "last": last, "most": most},
    ).fetchall()
    return [CountedDecision(id=row[0], at=row[1], answered=row[2], predicted=row[3], artifact=row[4]) for row in rows]


def _labels(
    connection: Connection,
    model: str,
    precedence: Precedence,
    since: datetime,
    until: datetime,
    after: ReadUntil,
    most: int,
) -> list[ControlLabel]:
    at, last = after.label or (None, None)
    rows = connection.execute(
        "select i.id, i.ended_at, r.action = 'answer', r.prediction, r.prediction_set, o.label, r.label_probability"
        " from review_items i join records r on r.id = i.record_id"
        f" join lateral {THE_ONE_OF_R} o on true"
        " where i.model = %(model)s and i.status = 'resolved' and i.kind <> 're_review' and i.label is not null"
        " and r.created_at >= %(since)s and r.label_probability > 0"
        " and i.ended_at >= %(from)s and i.ended_at < %(until)s"
        " and (%(at)s::timestamptz is null or (i.ended_at, i.id) > (%(at)s::timestamptz, %(last)s::uuid))"
        " order by i.ended_at, i.id limit %(most)s",
        {
            "model": model,
            "precedence": listed(precedence),
            "since": since,
            "from": at or since,  # lets the index skip what is known
            "until": until,
            "at": at,
            "last": last,
            "most": most,
        },
    ).fetchall()
    return [
        ControlLabel(
            id=row[0],
            at=row[1],
            answered=row[2],
            prediction=row[3],
            prediction_set=row[4],
            outcome=row[5],
            probability=row[6],
        )
        for row in rows
    ]
