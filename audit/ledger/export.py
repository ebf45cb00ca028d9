"""Records, their outcomes and how their cases ended, from PostgreSQL to partitioned Parquet, each once."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from demur.audit.ledger.exported import ExportFolder, File, Kind, Run
from demur.audit.ledger.gathering import score_columns
from demur.audit.ledger.settled import settled_moment
from demur.audit.ledger.snapshot import Read, snapshot
from demur.traffic.database import Database

Progress = Callable[[int, int], None]
"""Is told how many of how many rows have been written."""

TICK = timedelta(microseconds=1)
"""The finest time that PostgreSQL keeps."""

LATE = timedelta(minutes=10)
"""A record that was written so long after its time is still found by the next run."""

ROWS_AT_ONCE = 262_144

FROM = {
    "records": (
        'select r.id, r.created_at, r.artifact, r."group", r.cluster, r.prediction::text as prediction, r.top_labels,'
        "       r.top_probabilities, r.top_probabilities[1] as top_probability, r.label_confidence, r.prediction_set,"
        "       r.scores::text as scores, r.confidence, r.action, r.reason, r.label_probability,"
        "       q.created_at as asked_at, r.timings::text as timings, r.steps::text as steps, r.cost::text as cost",
        " from records r left join review_items q on q.id = r.id"
        " where r.model = {model} and r.created_at > {late} and r.created_at <= {end}",
    ),
    "outcomes": (
        "select o.id, o.record_id, o.created_at, o.label::text as label, o.source, o.author,"
        "       r.created_at as record_created_at",
        " from outcomes o join records r on r.id = o.record_id"
        " where r.model = {model} and r.created_at > {first} and o.created_at > {begin} and o.created_at <= {end}",
    ),
    "reviews": (
        "select q.id, q.record_id, q.kind, q.blind, q.created_at, q.first_claimed_at, q.due_at, q.ended_at, q.status,"
        "       q.resolution, q.label::text as label, q.opinions_wanted,"
        "       (select count(*) from review_opinions o where o.case_id = q.id and o.undone_at is null) as opinions,"
        "       r.created_at as record_created_at",
        " from review_items q join records r on r.id = q.record_id"
        " where r.model = {model} and r.created_at > {first} and q.ended_at > {begin} and q.ended_at <= {end}",
    ),
    "inputs": (
        "select p.record_id, p.input::text as input, p.reply::text as reply, p.output::text as output,"
        " r.created_at as record_created_at",
        " from payloads p join records r on r.id = p.record_id"
        " where r.model = {model} and r.created_at > {late} and r.created_at <= {end}",
    ),
}
"""For each kind what is asked for, and from where. `reviews` says nothing about who the reviewers were."""


class RangeTaken(ValueError):
    """What was exported before begins elsewhere. Leave `--since` out, or export to another place."""


@dataclass
class ExportSummary:
    """What one run has done."""

    end: datetime
    """Up to when everything has been exported."""

    rows: dict[Kind, int] = field(default_factory=dict)
    files: list[File] = field(default_factory=list)


def export(
    database: Database,
    url: str,
    model: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    inputs: bool = False,
    progress: Progress | None = None,
) -> ExportSummary:
    """Write what is new since the last run under this URL: records from `since` on, all of them if None, and what came
    before `until`, or is settled.

    Late outcomes and ends of cases go to the day of their record, so that each day can be audited by itself. Inputs are
    written with `inputs` only: those of records that are new.
    """
    exported = ExportFolder(url, model)
    with database.transaction() as connection:
        end = settled_moment(connection)
    if until is not None:
        end = min(end, until - TICK)
    runs = exported.runs
    first = runs[0].begin if runs else None
    if since is not None and first is not None and since <= first:
        raise RangeTaken(
            f"what is in {exported.folder.url} begins at {(first + TICK).isoformat()}; to have what is older as well,"
            " export to another place"
        )
    begin = runs[-1].end if runs else since and since - TICK
    first = first if runs else begin
    if begin is not None and end <= begin:
        return ExportSummary(end=begin)
    long_ago = datetime(1, 1, 1, tzinfo=UTC)
    late = max(first or long_ago, begin - LATE) if begin and runs else begin or long_ago
    which = {"model": model, "first": first or long_ago, "begin": begin or long_ago, "late": late, "end": end}
    kinds: list[Kind] = ["records", "outcomes", "reviews", *(["inputs"] if inputs else [])]  # type: ignore[list-item]
    done, written, total = ExportSummary(end=end), 0, 0
    with snapshot(database) as read:
        if progress is not None:
            total = sum(_count(read, kind, which) for kind in kinds)
            progress(0, total)
        for kind in kinds:
            known = _ids_since(exported, kind, late) if runs else None
            with DayFiles(exported, kind, begin or first, end) as files:
                for batch in _rows(read, kind, which):
                    files.add(_new_ones(batch, known) if known is not None else batch)
                    written += batch.num_rows
                    if progress is not None:
                        progress(written, total)
            done.files += files.written
            done.rows[kind] = sum(file.rows for file in files.written)
    let_count(exported, Run(begin=begin, end=end, files=done.files))
    return done


def let_count(exported: ExportFolder, run: Run) -> None:
    """Give the files of a run their names, and then let them count, all at once."""
    for file in run.files:
        exported.folder.move(_draft(file.path), file.path)
    exported.add(run)


def _count(read: Read, kind: Kind, which: dict[str, object]) -> int:
    return sum(int(batch.column("n")[0].as_py()) for batch in read("select count(*) as n" + FROM[kind][1], **which))


def _rows(read: Read, kind: Kind, which: dict[str, object]) -> Iterator[pa.RecordBatch]:
    """In order of the records' time."""
    yield from read("".join(FROM[kind]) + " order by r.created_at", **which)


def _ids_since(exported: ExportFolder, kind: Kind, moment: datetime) -> pa.Array | None:
    """Which records were written before, of those that will be read once more."""
    column = {"records": "id", "inputs": "record_id"}.get(kind)
    if column is None:
        return None
    found = []
    for file in exported.files(kind, moment.date(), date.max):
        with exported.folder.reading(file.path) as opened:
            found.append(pq.read_table(opened, columns=[column])[column].combine_chunks())
    return pa.concat_arrays(found) if found else pa.array([], pa.binary(16))


def _new_ones(batch: pa.RecordBatch, known: pa.Array) -> pa.RecordBatch:
    ids = _plain(batch.column("id" if "id" in batch.schema.names else "record_id"))
    return batch.filter(pc.invert(pc.is_in(ids, value_set=known)))


def _plain(column: pa.Array) -> pa.Array:
    """A UUID as its sixteen bytes, which every reader of Parquet knows."""
    return column.storage if isinstance(column, pa.ExtensionArray) else column


class DayFiles:
    """Takes rows in order of their record's time, and writes a file for each day."""

    def __init__(self, exported: ExportFolder, kind: Kind, begin: datetime | None, end: datetime) -> None:
        self._exported = exported
        self._kind = kind
        self._name = f"{kind}-{_compact(begin) if begin else 'first'}-{_compact(end)}"
        self._day: date | None = None
        self._schema: pa.Schema | None = None
        self._waiting: list[pa.Table] = []
        self._open: ExitStack | None = None
        self._writer: pq.ParquetWriter | None = None
        self._path, self._rows = "", 0
        self._run = uuid4().hex[:8]
        self.written: list[File] = []

    def __enter__(self) -> "DayFiles":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self._close()
        elif self._open is not None:
            self._open.close()

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        time = batch.column("created_at" if self._kind == "records" else "record_created_at")
        days = time.cast(pa.timestamp("us")).to_numpy().astype("datetime64[D]")
        edges = [0, *(np.flatnonzero(days[1:] != days[:-1]) + 1), len(days)]
        table = _table(self._kind, batch)
        for begin, end in pairwise(edges):
            self._add(days[begin].item(), table.slice(begin, end - begin))

    def _add(self, day: date, rows: pa.Table) -> None:
        rows = _widened(rows, self._schema) if self._schema is not None else rows
        if self._day != day or self._schema != rows.schema:  # another day, or a score that the file has no place for
            self._close()
            self._day, self._schema = day, rows.schema
        self._waiting.append(rows)
        if sum(table.num_rows for table in self._waiting) >= ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows, self._waiting = pa.concat_tables(self._waiting), []
        if self._writer is None:
            assert self._day is not None
            again = sum(file.day == self._day for file in self.written)  # another file where other scores begin
            name = f"{self._name}-{self._run}" + (f"-{again + 1}" if again else "")
            self._path, self._rows = f"day={self._day.isoformat()}/{name}.parquet", 0
            self._open = ExitStack()
            file = self._open.enter_context(self._exported.folder.writing(_draft(self._path)))
            self._writer = self._open.enter_context(
                pq.ParquetWriter(file, rows.schema, compression="zstd", use_dictionary=_repeated(rows.schema))
            )
        self._writer.write_table(rows, row_group_size=ROWS_AT_ONCE)
        self._rows += rows.num_rows

    def _close(self) -> None:
        self._flush()
        if self._open is None or self._day is None:
            return
        self._open.close()
        self.written.append(File(path=self._path, kind=self._kind, day=self._day, rows=self._rows))
        self._open = self._writer = None


def _table(kind: Kind, batch: pa.RecordBatch) -> pa.Table:
    columns = {name: _plain(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    if kind == "records":
        scores = score_columns(columns.pop("scores"))
        if scores:
            names = sorted(scores)
            columns["scores"] = pa.StructArray.from_arrays(
                [pa.array(scores[name], from_pandas=True) for name in names], names
            )
    return pa.table(columns).replace_schema_metadata(None).cast(_without_metadata(columns))


def _widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with a column for every score of the schema."""
    if rows.schema == schema or "scores" not in schema.names:
        return rows
    names = [field.name for field in schema.field("scores").type]
    here = {}
    if "scores" in rows.column_names:
        scores = rows["scores"].combine_chunks()
        here = {field.name: values for field, values in zip(scores.type, scores.flatten(), strict=True)}
    if not set(here) <= set(names):
        return rows
    nothing = pa.nulls(rows.num_rows, pa.float64())
    wide = pa.StructArray.from_arrays([here.get(name, nothing) for name in names], names)
    rows = rows.drop_columns("scores") if here else rows
    return rows.append_column("scores", wide)


def _without_metadata(columns: dict[str, pa.Array]) -> pa.Schema:
    def bare(kind: pa.DataType) -> pa.DataType:
        return pa.list_(pa.field("element", kind.value_type)) if pa.types.is_list(kind) else kind

    return pa.schema([pa.field(name, bare(column.type)) for name, column in columns.items()])


def _repeated(schema: pa.Schema) -> list[str]:
    """Columns in which the same texts come again and again."""
    names = [item.name for item in schema if pa.types.is_string(item.type) and item.name not in ("input", "reply")]
    lists = [item.name for item in schema if pa.types.is_list(item.type) and pa.types.is_string(item.type.value_type)]
    return [*names, *(f"{name}.list.element" for name in lists)]


def _draft(path: str) -> str:
    """The name until the run is complete; what begins with a dot is read by nobody."""
    folder, name = path.rsplit("/", 1)
    return f"{folder}/.{name}"


def _compact(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
