"""Reports that are kept: stored as they were made, listed, and deleted when their time is up. Every function works
inside the transaction it is given."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from demur.traffic.database import Connection

VERDICTS = ("kept", "broken", "not enough evidence", "nothing was promised")
"""Those of `demur.audit.report.verdict`, which takes a while to import."""


class ReportNotFound(LookupError):
    """No report with this id is kept. Those that are stand in the list of reports."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A number that stands for much of a report, with its 95% interval. NaN where it is not known."""

    name: str
    words: str
    value: float
    low: float
    high: float
    share: bool = True
    """Whether it is a share, and shown in percent."""

    @property
    def known(self) -> bool:
        return self.value == self.value

    @property
    def bounded(self) -> bool:
        return self.low == self.low and self.high == self.high


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelCount:
    """How many records of one part of the traffic there were, and of how many the truth is known."""

    name: str
    records: int
    labelled: int

    @property
    def share(self) -> float:
        return self.labelled / self.records if self.records else float("nan")


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What lists and comparisons show of a report."""

    verdict: str
    """`kept`, `broken`, `not enough evidence`, or `nothing was promised`."""

    why: str
    """The verdict in one sentence."""

    max_risk: float
    """What was promised: the share of wrong answers among the answered. NaN where nothing was."""

    figures: Sequence[Figure]
    """The most important first."""

    labels: Sequence[LabelCount]
    """Of the answered and of the held records."""

    artifacts: Mapping[str, int]
    """How many records each of them decided."""

    @property
    def records(self) -> int:
        return sum(part.records for part in self.labels)

    @property
    def labelled(self) -> int:
        return sum(part.labelled for part in self.labels)

    def figure(self, name: str) -> Figure | None:
        return next((figure for figure in self.figures if figure.name == name), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportExtent:
    """What a report is about: records of `model` from `since` until just before `until`, as known at `as_of`."""

    model: str
    since: datetime
    until: datetime
    as_of: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class NewReport:
    """A report to be stored."""

    extent: ReportExtent
    planned: bool
    made_by: str
    command: str
    version: str
    summary: Summary
    document: str
    """JSON; kept byte for byte."""

    html: str
    rows_at: str | None = None
    """Where the rows behind it lie, if they were kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A stored report, without its text and its numbers."""

    id: UUID
    extent: ReportExtent
    planned: bool
    made_by: str
    made_at: datetime
    command: str
    version: str
    summary: Summary
    rows_at: str | None
    previous_id: UUID | None
    """The one to compare it with: of scheduled ones the last scheduled one, else the last one."""


COLUMNS = (
    "id, model, since, until, as_of, planned, made_by, made_at, command, version, summary::text, rows_at, previous_id"
)


def store(connection: Connection, new: NewReport, id: UUID | None = None) -> UUID:
    """Keep a report, and return its id."""
    id, of = id or uuid7(), new.extent
    connection.execute(
        "insert into audit_reports (id, model, since, until, as_of, planned, made_by, command, version, verdict,"
        " summary, document, html, rows_at, previous_id)"
        " values (%(id)s, %(model)s, %(since)s, %(until)s, %(as_of)s, %(planned)s, %(made_by)s, %(command)s,"
        " %(version)s, %(verdict)s, %(summary)s, %(document)s, %(html)s, %(rows_at)s,"
        " (select id from audit_reports where model = %(model)s and (planned or not %(planned)s)"
        "  and until <= %(until)s order by until desc, made_at desc limit 1))",
        {
            "id": id,
            **asdict(of),
            "planned": new.planned,
            "made_by": new.made_by,
            "command": new.command,
            "version": new.version,
            "verdict": new.summary.verdict,
            "summary": orjson.dumps(new.summary).decode(),  # NaN becomes null
            "document": new.document,
            "html": zlib.compress(new.html.encode(), 6),
            "rows_at": new.rows_at,
        },
    )
    return id


def report(connection: Connection, id: UUID) -> Report:
    """Return a report, or raise `ReportNotFound`."""
    found = connection.execute(f"select {COLUMNS} from audit_reports where id = %s", (id,)).fetchone()
    if found is None:
        raise ReportNotFound(f"there is no report {id}; it may have been deleted when its time was up")
    return _report(found)


def listed(
    connection: Connection,
    *,
    model: str | None = None,
    planned: bool | None = None,
    until: datetime | None = None,
    limit: int,
    offset: int = 0,
) -> list[Report]:
    """Reports, newest first: by the end of what they are about, then by when they were made. `until` leaves out those
    that end later."""
    rows = connection.execute(
        f"select {COLUMNS} from audit_reports where (%(model)s::text is null or model = %(model)s)"
        " and (%(planned)s::boolean is null or planned = %(planned)s)"
        " and (%(until)s::timestamptz is null or until <= %(until)s)"
        " order by until desc, made_at desc limit %(limit)s offset %(offset)s",
        {"model": model, "planned": planned, "until": until, "limit": limit, "offset": offset},
    ).fetchall()
    return [_report(row) for row in rows]


def latest(connection: Connection) -> list[Report]:
    """The newest report of each model, in the order of their names."""
    rows = connection.execute(
        f"select distinct on (model) {COLUMNS} from audit_reports order by model, until desc, made_at desc"
    ).fetchall()
    return [_report(row) for row in rows]


def document_of(connection: Connection, id: UUID) -> str:
    """Every number of a report, as JSON: the bytes that were stored."""
    return str(_column(connection, "document::text", id))


def html_of(connection: Connection, id: UUID) -> str:
    return zlib.decompress(_column(connection, "html", id)).decode()


def forget(connection: Connection, *, keep_days: float) -> list[Report]:
    """Delete reports that were made more than `keep_days` ago, and return them: their rows lie elsewhere."""
    rows = connection.execute(
        f"delete from audit_reports where made_at < clock_timestamp() - make_interval(secs => %s) returning {COLUMNS}",
        (keep_days * 86400,),
    ).fetchall()
    return [_report(row) for row in rows]


def _column(connection: Connection, column: str, id: UUID) -> Any:
    found = connection.execute(f"select {column} from audit_reports where id = %s", (id,)).fetchone()
    if found is None:
        raise ReportNotFound(f"there is no report {id}; it may have been deleted when its time was up")
    return found[0]


def _report(row: tuple[Any, ...]) -> Report:
    id, model, since, until, as_of, planned, made_by, made_at, command, version, summary, rows_at, previous_id = row
    return Report(
        id=id,
        extent=ReportExtent(model=model, since=since, until=until, as_of=as_of),
        planned=planned,
        made_by=made_by,
        made_at=made_at,
        command=command,
        version=version,
        summary=summary_from(orjson.loads(summary)),
        rows_at=rows_at,
        previous_id=previous_id,
    )


def summary_from(told: Mapping[str, Any]) -> Summary:
    """A summary as it was stored, where null stands for what is not known."""
    return Summary(
        verdict=told["verdict"],
        why=told["why"],
        max_risk=_number(told["max_risk"]),
        figures=[
            Figure(**{**figure, **{end: _number(figure[end]) for end in ("value", "low", "high")}})
            for figure in told["figures"]
        ],
        labels=[LabelCount(**part) for part in told["labels"]],
        artifacts=told["artifacts"],
    )


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
