"""What is written in one transaction, and what is on disk afterwards."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from demur.review.item import NewCase
from demur.traffic.columns import RecordColumns
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


ToWrite = Writing | RecordColumns
"""What is written together: one prediction, or several in columns about which nobody is asked."""


class CommitResult:
    """What is on disk for one prediction."""

    __slots__ = ("_record", "columns", "replayed", "row")

    def __init__(
        self,
        *,
        record: Record | None = None,
        replayed: bool = False,
        columns: RecordColumns | None = None,
        row: int = 0,
    ) -> None:
        """`replayed` is true if this key had been used for this input before: the record is the one from then, and
        nothing was written. The record is given, or is a `row` of `columns`."""
        self._record = record
        self.replayed = replayed
        self.columns = columns
        self.row = row

    @property
    def record(self) -> Record:
        """The record, made of its columns when somebody first asks for it."""
        if self._record is None:
            assert self.columns is not None
            self._record = self.columns.record(self.row)
        return self._record


CommitOutcome = CommitResult | Exception
"""What is on disk for an entry, or why nothing is: one that is refused takes none of its neighbours with it."""

Pieces = AsyncGenerator[str | CommitResult, None]
"""A reply as it is written, and last what was decided about it, which is on record by then. Closing it stops the model;
then nothing is on record."""
