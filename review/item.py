"""A case: a prediction on its way to people, the states it goes through, and what they say about it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from demur.traffic.record import Answer


class Status(StrEnum):
    WAITING = "waiting"  # nobody has it: it is new, was given back, or another opinion is wanted
    CLAIMED = "claimed"  # one person holds it until the lease runs out
    ANSWERED = "answered"  # somebody has spoken, and can still take it back
    ADJUDICATION = "adjudication"  # people disagree, or could not tell: waits for one who decides
    RESOLVED = "resolved"  # decided; where somebody could tell, an outcome was written
    EXPIRED = "expired"  # its due time came first
    WITHDRAWN = "withdrawn"  # somebody said that it need not be looked at


ENDED = (Status.RESOLVED, Status.EXPIRED, Status.WITHDRAWN)

TRANSITIONS = {
    Status.WAITING: {Status.CLAIMED, Status.EXPIRED, Status.WITHDRAWN},
    Status.CLAIMED: {Status.WAITING, Status.ADJUDICATION, Status.ANSWERED, Status.WITHDRAWN},  # back: released, lapsed
    Status.ANSWERED: {Status.CLAIMED, Status.WAITING, Status.ADJUDICATION, Status.RESOLVED, Status.WITHDRAWN},
    Status.ADJUDICATION: {Status.CLAIMED, Status.EXPIRED, Status.WITHDRAWN},
    Status.RESOLVED: {Status.CLAIMED},  # whoever resolved it alone changes their answer: `demur.review.reopening`
}
"""The moves that the database lets through; every one of them becomes an event."""


class Kind(StrEnum):
    """Why people are asked. Reviewers are not told: they shall look at all with the same eyes."""

    HELD = "held"  # the model was not sure enough
    SPOT_CHECK = "spot_check"  # drawn to see whether what was not held is right
    RE_REVIEW = "re_review"  # drawn to see whether reviewers are right


class QueueOrder(StrEnum):
    """What comes first, among cases of one priority and due time."""

    AGE = "age"  # the oldest
    UNCERTAINTY = "uncertainty"  # the least confident


@dataclass(frozen=True, kw_only=True, slots=True)
class NewCase:
    """A record for the queue."""

    record_id: UUID
    model: str
    created_at: datetime
    group: str | None = None
    confidence: float | None = None
    kind: Kind = Kind.HELD
    priority: int = 0
    """Higher comes first."""

    due_at: datetime | None = None
    opinions_wanted: int = 1
    blind: bool = False
    """Reviewers see the prediction after they have answered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One asking of people about one record."""

    id: UUID
    """The record's own, but for a re-review."""

    record_id: UUID
    kind: Kind
    model: str
    group: str | None
    confidence: float | None
    status: Status
    """As it stands now: a case whose lease ran out is free again."""

    created_at: datetime
    priority: int
    due_at: datetime | None
    overdue_at: datetime | None
    opinions_wanted: int
    blind: bool
    adjudicating: bool
    """The next answer decides."""

    token: int
    """Grows with every claim. Whoever answers shows the token of their own claim."""

    claimed_by: str | None
    """Who holds it, or who spoke last."""

    lease_until: datetime | None
    settles_at: datetime | None
    """Until when the last answer can be taken back."""

    ended_at: datetime | None
    label: Answer | None
    """What it was resolved to; None as well where nobody could tell."""

    resolution: str | None
    """`agreed`, `majority`, `adjudicated`, or `undecided`, where even who was to decide could not tell."""

    ahead: bool = False
    """True while the reviewer who holds the case was sent it in advance and has not opened it yet."""

    assigned_to: str | None = None
    """For whom it is kept: nobody else gets it before its due time is over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The right to answer one case until `lease_until`."""

    case_id: UUID
    reviewer: str
    token: int
    lease_until: datetime
    adjudicating: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewVerdict:
    """What a person says about a case: a label, or why they cannot tell."""

    label: Answer | None = None
    reason: str | None = None
    comment: str | None = None
    text: str | None = None
    """What should have been written in the place of a reply that is wrong."""

    codes: tuple[str, ...] = ()
    """Why the reply is wrong, in the codes of the configuration."""

    saw_prediction: bool
    """Whether they had seen what the model said when they said it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opinion:
    """A verdict that somebody gave."""

    case_id: UUID
    token: int
    at: datetime
    reviewer: str
    adjudicates: bool
    label: Answer | None
    reason: str | None
    comment: str | None
    saw_prediction: bool
    seconds: float
    """From the claim to the answer."""

    undone_at: datetime | None
    """When it was taken back: it does not count."""

    text: str | None = None
    """What should have been written in the place of the reply. Kept as long as the reply is."""

    codes: list[str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One move of a case."""

    at: datetime
    actor: str | None
    """None: the service itself."""

    from_status: Status | None
    to_status: Status
    token: int
    detail: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewerScope:
    """What a person may see and do."""

    models: tuple[str, ...] | None = None
    """None: all."""

    groups: tuple[str, ...] | None = None
    """None: all, those of no group as well."""

    adjudicates: bool = True

    def covers(self, case: Case) -> bool:
        return (self.models is None or case.model in self.models) and (self.groups is None or case.group in self.groups)


EVERYTHING = ReviewerScope()
