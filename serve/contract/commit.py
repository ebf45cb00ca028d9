"""What is written in one transaction, and what is on disk afterwards."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from demur.review.item import NewCase
from demur.traffic.record import Entry, Record


class Unwritable(ValueError):
    """This one record cannot be written as JSON, or PostgreSQL refused it. It was not acknowledged; the message says
    why."""


@dataclass(slots=True)
class Writing:
    """What is written for one prediction, in both rooms of the memory."""

    entry: Entry
    case: NewCase | None = None
    """None where nobody is asked about it."""


@dataclass(kw_only=True, slots=True)
class CommitResult:
    """What is on disk for an entry."""

    record: Record
    replayed: bool
    """True if this key had been used for this input before: `record` is the one from then, and nothing was written."""


CommitOutcome = CommitResult | Exception
"""What is on disk for an entry, or why nothing is: one that is refused takes none of its neighbours with it."""

Pieces = AsyncGenerator[str | CommitResult, None]
"""A reply as it is written, and last what was decided about it, which is on record by then. Closing it stops the model;
then nothing is on record."""
