"""A prediction on its way to a person, and the states it goes through."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class Status(StrEnum):
    WAITING = "waiting"  # nobody has taken it, or the one who had was out of time
    CLAIMED = "claimed"  # waiting -> claimed: one person holds it until the lease runs out
    RESOLVED = "resolved"  # claimed -> resolved, and an outcome was written


class Kind(StrEnum):
    """Why a person is asked. Reviewers are not told: they shall look at both with the same eyes."""

    HELD = "held"  # the model was not sure enough
    SPOT_CHECK = "spot_check"  # drawn to see whether what was not held is right


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewItem:
    """One prediction in the queue."""

    record_id: UUID
    model: str
    status: Status
    """As it stands now: an item whose lease ran out is waiting."""

    created_at: datetime
    token: int
    """Grows with every claim. Whoever answers shows the token of their own claim."""

    claimed_by: str | None
    """Who holds it, or who resolved it."""

    lease_until: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The right to answer one item until `lease_until`, unless somebody claims it after that."""

    record_id: UUID
    reviewer: str
    token: int
    lease_until: datetime
