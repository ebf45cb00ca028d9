"""What is written in one transaction, and what is on disk afterwards."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from uuid import UUID

from demur.review.item import NewCase
from demur.traffic.columns import RecordColumns
from demur.traffic.record import Entry, KeyUse, Record


class Unwritable(ValueError):
    """This one record cannot be written as JSON, or PostgreSQL refused it, or what its key stands for was erased just
    now. It was not acknowledged; the message says why."""


@dataclass(slots=True)
class Writing:
    """What is written for one prediction, in both rooms of the memory."""

    entry: Entry
    case: NewCase | None = None
    """None where nobody is asked about it."""

    def __len__(self) -> int:
        return 1

    @property
    def keys(self) -> dict[UUID, KeyUse]:
        """The use of an Idempotency-Key, by the id of the record."""
        return {self.entry.record.id: self.entry.key} if self.entry.key else {}

    def new_cases(self) -> list[NewCase]:
        """What people are asked."""
        return [self.case] if self.case else []


@dataclass(slots=True)
class BatchWriting:
    """What is written for predictions that one artifact decided together."""

    columns: RecordColumns
    cases: dict[int, NewCase] = field(default_factory=dict)
    """By row, where a person is asked about it."""

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def keys(self) -> dict[UUID, KeyUse]:
        """The use of an Idempotency-Key by those that have one, by the id of the record."""
        columns = self.columns
        return {record_id: use for record_id, use in zip(columns.ids, columns.keys, strict=True) if use}

    def new_cases(self) -> list[NewCase]:
        """What people are asked."""
        return list(self.cases.values())

    def writings(self) -> list[Writing]:
        """Each of them by itself."""
        return [Writing(entry, self.cases.get(row)) for row, entry in enumerate(self.columns.entries())]


ToWrite = Writing | BatchWriting


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
