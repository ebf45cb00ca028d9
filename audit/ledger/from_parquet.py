"""The ledger of an audit from exported Parquet: whole, or a day at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from math import ceil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from demur.audit.ledger.exported import ExportFolder, File, Kind, NotExported
from demur.audit.ledger.gathering import LISTS, NUMBERS, TEXTS, Gathering
from demur.audit.ledger.ledger import Extent, Ledger
from demur.traffic.outcomes import Precedence

Progress = Callable[[int, int], None]
"""Is told how many of how many records have been read."""

RECORD_COLUMNS = (
    *("id", "created_at", "prediction", "scores", "asked_at", "label_confidence"),
    *(*TEXTS, *NUMBERS, *LISTS),
)
OUTCOME_COLUMNS = ("id", "record_id", "created_at", "label", "source")
AS_CODES: dict[Kind, list[str]] = {
    "records": [*TEXTS, "prediction"],
    "outcomes": ["label", "source"],
}
ROWS_AT_ONCE = 262_144
MOST_ROWS = 1_000_000
"""In one part of an audit."""

DAY = timedelta(days=1)


def exported_end(url: str, model: str) -> datetime:
    """Up to when everything of a model has been exported; raises `NotExported` if nothing has."""
    return _end(ExportFolder(url, model))


def days_with_records(
    exported: ExportFolder, since: datetime | None, until: datetime | None
) -> Iterator[tuple[tuple[datetime, datetime], int]]:
    """Cut [since, until) where days begin in UTC, and leave out days without records. Each part comes beside the number
    of records of its whole day."""
    for day, n in exported.days().items():
        begin = datetime.combine(day, clock_time(), UTC)
        part = (max(begin, since or begin), min(begin + DAY, until or begin + DAY))
        if part[0] < part[1]:
            yield part, n


def _of_like_size(
    days: Iterator[tuple[tuple[datetime, datetime], int]], most_rows: int
) -> Iterator[tuple[datetime, datetime]]:
    """Small days together, and large ones cut into equal times."""
    begin: datetime | None = None
    end, rows = datetime.min.replace(tzinfo=UTC), 0
    for (first, last), n in days:
        if begin is not None and rows + n > most_rows:
            yield begin, end
            begin = None
        if n > most_rows:
            cuts = ceil(n / most_rows)
            for cut in range(cuts):
                yield first + cut * (last - first) / cuts, first + (cut + 1) * (last - first) / cuts
        elif begin is None:
            begin, end, rows = first, last, n
        else:
            end, rows = last, rows + n
    if begin is not None:
        yield begin, end


def read_exported(
    url: str,
    model: str,
    *,
    precedence: Precedence,
    since: datetime | None,
    until: datetime | None,
    as_of: datetime,
    exact: bool = False,
    progress: Progress | None = None,
) -> Ledger:
    """Return what `demur.audit.ledger.from_database.read_ledger` returns, from an export that reaches up to `as_of`."""
    exported = ExportFolder(url, model)
    _check_reaches(exported, as_of)
    extent = _extent(exported, since, until, as_of)
    since, until, as_of = extent.since, extent.until, extent.as_of
    gathering, done = Gathering(precedence), 0
    days = [day for day in exported.days() if since.date() <= day <= until.date()] if since < until else []
    total = sum(file.rows for day in days for file in exported.files("records", day, day))
    if progress is not None:
        progress(0, total)
    for day in days:
        for file in exported.files("records", day, day):
            for batch in _batches(exported, file, RECORD_COLUMNS, since, until):
                gathering.add_records(_records(_in_range(batch, since, until), as_of))
                done += batch.num_rows
                if progress is not None:
                    progress(done, total)
        for file in exported.files("outcomes", day, day):
            for batch in _batches(exported, file, OUTCOME_COLUMNS):
                gathering.add_outcomes(batch.filter(pc.less_equal(batch.column("created_at"), as_of)))
        gathering.end_part()
    return gathering.ledger(extent, exact=exact)


def _end(exported: ExportFolder) -> datetime:
    if exported.end is None:
        raise NotExported(f"there is no export of {exported.model!r} in {exported.folder.url}; run demur export first")
    return exported.end


def _check_reaches(exported: ExportFolder, as_of: datetime) -> None:
    if as_of > _end(exported):
        raise NotExported(
            f"{exported.folder.url} reaches up to {_end(exported).isoformat()} only; audit as of then, or run demur"
            " export again"
        )


def _extent(exported: ExportFolder, since: datetime | None, until: datetime | None, as_of: datetime) -> Extent:
    """In UTC: the days of the export are."""
    as_of = as_of.astimezone(UTC)
    until = as_of if until is None else min(until, as_of).astimezone(UTC)
    first = _first_moment(exported, list(exported.days()), until) if since is None else since
    return Extent(model=exported.model, since=min(first, until).astimezone(UTC), until=until, as_of=as_of)


def _first_moment(exported: ExportFolder, days: list[date], until: datetime) -> datetime:
    for day in days[:1]:
        found: list[datetime] = [
            pc.min(batch.column("created_at")).as_py()
            for file in exported.files("records", day, day)
            for batch in _batches(exported, file, ("created_at",))
        ]
        return min(moment.astimezone(UTC) for moment in found)
    return until


def _batches(
    exported: ExportFolder,
    file: File,
    columns: tuple[str, ...],
    since: datetime | None = None,
    until: datetime | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the parts of a file that lie in the range as a whole or in part."""
    with (
        exported.folder.reading(file.path) as opened,
        pq.ParquetFile(opened, read_dictionary=AS_CODES[file.kind]) as rows,
    ):
        names = rows.schema_arrow.names
        groups = [
            group
            for group in range(rows.num_row_groups)
            if since is None or until is None or _overlaps(rows, group, names.index("created_at"), since, until)
        ]
        wanted = [name for name in columns if name in names]  # a model without scores has no such column
        if groups:
            yield from rows.iter_batches(ROWS_AT_ONCE, row_groups=groups, columns=wanted)


def _overlaps(rows: pq.ParquetFile, group: int, column: int, since: datetime, until: datetime) -> bool:
    found = rows.metadata.row_group(group).column(column)
    known = found.statistics
    if found.path_in_schema != "created_at" or known is None or not known.has_min_max:
        return True
    return bool(known.max >= since and known.min < until)


def _in_range(batch: pa.RecordBatch, since: datetime, until: datetime) -> pa.RecordBatch:
    times = batch.column("created_at")
    ends = pc.min_max(times).as_py()
    if ends["min"] is None or (ends["min"] >= since and ends["max"] < until):
        return batch
    return batch.filter(pc.and_(pc.greater_equal(times, since), pc.less(times, until)))


def _records(batch: pa.RecordBatch, as_of: datetime) -> pa.RecordBatch:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["asked"] = pc.less_equal(columns.pop("asked_at"), as_of).fill_null(False)
    if "scores" not in columns:
        columns["scores"] = pa.array(["{}"] * len(batch))
    return pa.record_batch(list(columns.values()), names=list(columns))


@dataclass(frozen=True, kw_only=True)
class LedgerParts:
    """A ledger that is read part by part. It can be sent to other machines that see the same URL."""

    url: str
    extent: Extent
    ranges: Sequence[tuple[datetime, datetime]]
    precedence: Precedence
    exact: bool

    def read(self, at: int) -> Ledger:
        """One of the parts."""
        since, until = self.ranges[at]
        return read_exported(
            self.url,
            self.extent.model,
            precedence=self.precedence,
            since=since,
            until=until,
            as_of=self.extent.as_of,
            exact=self.exact,
        )


def parts_of(
    url: str,
    model: str,
    *,
    precedence: Precedence,
    since: datetime | None,
    until: datetime | None,
    as_of: datetime | None,
    exact: bool = False,
    at_least: int = 1,
) -> LedgerParts:
    """Return what `read_exported` would return, to be read in parts of up to `MOST_ROWS` rows, and about `at_least` of
    them; as of the end of the export where `as_of` is None."""
    exported = ExportFolder(url, model)
    as_of = _end(exported) if as_of is None else as_of
    _check_reaches(exported, as_of)
    extent = _extent(exported, since, until, as_of)
    most_rows = max(1, min(MOST_ROWS, ceil(sum(exported.days().values()) / at_least)))
    return LedgerParts(
        url=url,
        extent=extent,
        ranges=list(_of_like_size(days_with_records(exported, extent.since, extent.until), most_rows)),
        precedence=precedence,
        exact=exact,
    )
