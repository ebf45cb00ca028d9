"""The pages of reports: the list, one report, its files, and comparisons."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, timedelta
from typing import Annotated, Any
from urllib.parse import urlencode
from uuid import UUID

import fsspec
from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from markupsafe import Markup

from demur.audit.periods import next_boundary
from demur.audit.state import reports, runs
from demur.audit.state.reports import Report, ReportNotFound
from demur.audit.state.runs import RunStatus
from demur.serve.config.access import Scope
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.audit.reports.asking import FARTHEST, MOST_RUNS, asked, compared
from demur.serve.web.audit.reports.with_bar import ONLY_PRINT, with_bar
from demur.serve.web.audit.site import CurrentSite, Site, name_of
from demur.serve.web.shared.doors import may
from demur.serve.web.shared.look import beside, root_of
from demur.traffic.database import Connection

PER_MODEL = 5
"""Reports of each model on the first page."""

PER_PAGE = 50
OTHERS = 30
"""Reports that one can be compared with by a click."""

WINDOWS = {"1": "the last 24 hours", "7": "the last 7 days", "30": "the last 30 days", "90": "the last 90 days"}
"""Ranges that can be asked for, in days."""

AS_IT_IS = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none';"
    " frame-ancestors 'none'"
)
"""What a stored report may do: look as it does. It loads nothing, and nothing in it runs but the bar's own button."""

SHOWN = 60
"""Reports on the picture of a model's risk, the latest."""

router = APIRouter(include_in_schema=False)


class Pictures:
    """What was drawn last: a report never changes, and to draw a line of them takes a while."""

    MOST = 200

    def __init__(self) -> None:
        self._drawn: OrderedDict[tuple[str, tuple[UUID, ...]], Markup | None] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, newest_first: Sequence[Report], name: str) -> Markup | None:
        """The risk over these reports; None where there is nothing to draw."""
        key = name, tuple(report.id for report in newest_first)
        with self._lock:
            if key in self._drawn:
                return self._drawn[key]
        from demur.serve.web.audit.reports.timeline import timeline  # brings matplotlib

        svg = timeline(newest_first[::-1], name=name)
        drawn = None if svg is None else Markup(svg)  # noqa: S704 - our own SVG, in which every text is escaped
        with self._lock:
            self._drawn[key] = drawn
            if len(self._drawn) > self.MOST:
                self._drawn.popitem(last=False)
        return drawn


PICTURES = Pictures()


class Boards:
    """The pages for the board that were made last: a report never changes, and to draw its picture takes a while."""

    MOST = 100

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[UUID, str], str] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, id: UUID, document: str, report_at: str) -> str:
        """The page of one report, which leads to the address of the full one."""
        from demur.audit.report.page import board_page  # the pictures take a while to import

        with self._lock:
            if (id, report_at) in self._made:
                return self._made[id, report_at]
        html = board_page(json.loads(document), report_at=report_at)
        with self._lock:
            self._made[id, report_at] = html
            if len(self._made) > self.MOST:
                self._made.popitem(last=False)
        return html


BOARDS = Boards()


TROUBLE = ("broken", "not enough evidence", "kept", "nothing was promised", "")
"""In which order models are shown: by the verdict of their latest report, those without one last."""

SUMMARY_WORDS = {"nothing was promised": "without a promise", "": "never audited"}
"""How a summary calls the verdicts that are no word by themselves."""


def _place(verdict: str) -> int:
    """Where a verdict stands among the others; one of a later version stands last."""
    return TROUBLE.index(verdict) if verdict in TROUBLE else len(TROUBLE)


def _how_many(verdicts: Sequence[str]) -> str:
    """How many models there are of each verdict, in the order of trouble."""
    counted = [(verdict, sum(one == verdict for one in verdicts)) for verdict in TROUBLE]
    return ", ".join(f"{n} {SUMMARY_WORDS.get(verdict, verdict)}" for verdict, n in counted if n)


@router.get("/")
def list_reports(request: Request, site: CurrentSite, model: str = "", page_number: int = 1) -> Response:
    page_number = min(max(1, page_number), FARTHEST // PER_PAGE)
    with site.database.transaction() as connection:
        names = sorted({*site.config.models, *(report.extent.model for report in reports.latest(connection))})
        shown = [name for name in names if name == model] if model else names
        limit, offset = (PER_PAGE, (page_number - 1) * PER_PAGE) if model else (PER_MODEL, 0)
        listed = {name: reports.listed(connection, model=name, limit=limit + 1, offset=offset) for name in shown}
        lines = {name: reports.listed(connection, model=name, limit=SHOWN) for name in shown}
        newest = {report.extent.model: report.summary.verdict for report in reports.latest(connection)}
        open_runs = runs.latest_runs(connection, limit=MOST_RUNS)
    shown.sort(key=lambda name: (_place(newest.get(name, "")), name))
    return site.page(
        request,
        "reports.html",
        models=[
            {
                "name": name,
                "reports": listed[name][:limit],
                "more": len(listed[name]) > limit,
                "picture": PICTURES.of(lines[name], f"risk-{at}"),
                "runs": [run for run in open_runs if run.model == name],
                "served": name in site.config.models,
            }
            for at, name in enumerate(shown)
        ],
        summary=_how_many([newest.get(name, "") for name in shown]),
        only=model,
        page_number=page_number,
        windows=WINDOWS,
        window=f"{site.config.audit.window_days:g}",
        schedule=site.config.audit.words,
        next=site.config.audit.every and next_boundary(site.clock(), site.config.audit.every),
        busy=any(run.status in (RunStatus.WAITING, RunStatus.RUNNING) for run in open_runs),
        known=" ".join(sorted(f"{run.id}:{run.status.value}{run.attempts}" for run in open_runs)),
    )


@router.post("/audits")
def ask(
    request: Request, site: CurrentSite, model: Annotated[str, Form()], days: Annotated[str, Form()] = "7"
) -> Response:
    name = site.lead_of(request)
    if days not in WINDOWS and days != f"{site.config.audit.window_days:g}":
        raise InvalidRequest(f"days: choose one of: {', '.join(WINDOWS)}")
    now = site.clock()
    asked(site, name, model, now - timedelta(days=float(days)), now, any_range=True)
    return to(request, "/", model=model) if len(site.config.models) > 1 else to(request, "/")


@router.get("/reports/{id}")
def show_report(request: Request, site: CurrentSite, id: UUID) -> Response:
    with site.database.transaction() as connection:
        report = reports.report(connection, id)
        html = reports.html_of(connection, id)
    return _report_page(with_bar(html, report, root_of(request), cases_at=_cases_at(request, site, report)))


@router.get("/reports/{id}/board")
def show_board(request: Request, site: CurrentSite, id: UUID) -> Response:
    """Show the first page of a report by itself, drawn from its document."""
    with site.database.transaction() as connection:
        report = reports.report(connection, id)
        document = reports.document_of(connection, id)
    html = BOARDS.of(id, document, f"{root_of(request)}/reports/{id}")
    cases_at = _cases_at(request, site, report)
    return _report_page(with_bar(html, report, root_of(request), board=True, cases_at=cases_at))


def _cases_at(request: Request, site: Site, report: Report) -> str:
    """The address of the list of cases, for whoever may see those of the model; empty for others."""
    scope = site.config.review.scope_of(name_of(request)) if may(request, Scope.REVIEW) else None
    seen = scope is not None and (scope.models is None or report.extent.model in scope.models)
    return f"{beside(request, 'review')}/" if seen else ""


def _report_page(html: str) -> Response:
    headers = {"Content-Security-Policy": f"{AS_IT_IS}; script-src {ONLY_PRINT}", "Cache-Control": "no-store"}
    return Response(html, media_type="text/html", headers=headers)


@router.get("/reports/{id}/compare")
def compare_with(request: Request, site: CurrentSite, id: UUID, other: str = "") -> Response:
    """The address that the form leads to, and that without a choice: the one before."""
    if other:
        return to(request, f"/reports/{id}/compare/{_uuid(other)}")
    with site.database.transaction() as connection:
        report = reports.report(connection, id)
    if report.previous_id is None:
        return site.page(request, "first.html", report=report)
    return to(request, f"/reports/{id}/compare/{report.previous_id}")


@router.get("/reports/{id}/compare/{other}")
def compare(request: Request, site: CurrentSite, id: UUID, other: UUID) -> Response:
    with site.database.transaction() as connection:
        found = compared(connection, id, other)
        model = found.now.extent.model
        line = reports.listed(connection, model=model, until=found.now.extent.until, limit=SHOWN)
        others = [
            report for report in reports.listed(connection, model=model, limit=OTHERS) if report.id != found.now.id
        ]
    return site.page(request, "compare.html", found=found, picture=PICTURES.of(line, "risk"), others=others)


@router.get("/reports/{id}/report.json")
def download_json(id: UUID, site: CurrentSite) -> Response:
    return _download(site, id, "json", "application/json", _document)


@router.get("/reports/{id}/report.html")
def download_html(id: UUID, site: CurrentSite) -> Response:
    return _download(site, id, "html", "text/html; charset=utf-8", _html)


@router.get("/reports/{id}/report.parquet")
def download_parquet(id: UUID, site: CurrentSite) -> Response:
    return _download(site, id, "parquet", "application/vnd.apache.parquet", lambda _, report: rows_of(report))


@router.get("/reports/{id}/tables/{name}.csv")
def download_table(id: UUID, name: str, site: CurrentSite) -> Response:
    """Send the numbers of one table of a report."""
    from demur.audit.report.tables import TABLES, as_csv, table_rows

    report, document = _read(site, id)
    rows = table_rows(document, name)
    if not rows:
        raise ReportNotFound(f"this report has no table {name!r}; there are: {', '.join(TABLES)}")
    return _as_file(as_csv(rows), f"{file_name(report)}-{name}.csv", "text/csv; charset=utf-8")


@router.get("/reports/{id}/figures/{name}.{kind}")
def download_figure(id: UUID, name: str, kind: str, site: CurrentSite) -> Response:
    """Send one picture of a report as SVG or PNG, or the numbers behind it as CSV."""
    from demur.audit.report.page import pictures
    from demur.audit.report.tables import as_csv, figure_rows

    report, document = _read(site, id)
    content, media_type = b"", FIGURE_TYPES.get(kind, "")
    if kind == "csv" and (rows := figure_rows(document, name)):
        content = as_csv(rows)
    elif kind in ("svg", "png") and (picture := pictures(document).get(name)) is not None:
        content = picture.svg() if kind == "svg" else picture.png()
    if not content:
        raise ReportNotFound(f"this report has no picture {name!r} as {kind}")
    return _as_file(content, f"{file_name(report)}-{name}.{kind}", media_type)


FIGURE_TYPES = {"svg": "image/svg+xml", "png": "image/png", "csv": "text/csv; charset=utf-8"}


def _read(site: Site, id: UUID) -> tuple[Report, Mapping[str, Any]]:
    with site.database.transaction() as connection:
        return reports.report(connection, id), json.loads(reports.document_of(connection, id))


def _as_file(content: bytes, name: str, media_type: str) -> Response:
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": AS_IT_IS,
        "Cache-Control": "no-store",
    }
    return Response(content, media_type=media_type, headers=headers)


def _document(connection: Connection, report: Report) -> Response:
    return Response(reports.document_of(connection, report.id))


def _html(connection: Connection, report: Report) -> Response:
    return Response(reports.html_of(connection, report.id))


def _download(
    site: Site, id: UUID, suffix: str, kind: str, content: Callable[[Connection, Report], Response]
) -> Response:
    with site.database.transaction() as connection:
        report = reports.report(connection, id)
        response = content(connection, report)
    response.headers["Content-Type"] = kind
    response.headers["Content-Disposition"] = f'attachment; filename="{file_name(report)}.{suffix}"'
    response.headers["Content-Security-Policy"] = AS_IT_IS
    return response


def rows_of(report: Report) -> Response:
    """The rows behind a report, a piece at a time."""
    if report.rows_at is None:
        raise ReportNotFound("the rows behind this report were not kept; its command writes them again")
    try:
        opened = fsspec.open(report.rows_at, "rb").open()
    except OSError:
        raise ReportNotFound("the rows behind this report are no longer there; its command writes them again") from None
    return StreamingResponse(pieces(opened))


def pieces(opened: Any) -> Iterator[bytes]:
    with opened:
        while piece := opened.read(1 << 20):
            yield piece


def file_name(report: Report) -> str:
    return f"{report.extent.model}-{report.extent.until.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def to(request: Request, path: str, **query: str) -> Response:
    return RedirectResponse(f"{root_of(request)}{path}{'?' if query else ''}{urlencode(query)}", status_code=303)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidRequest("other: choose one of the reports") from None
