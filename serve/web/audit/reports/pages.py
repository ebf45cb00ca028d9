"""The pages of reports, and the API over them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import urlencode
from uuid import UUID

import fsspec
from fastapi import APIRouter, Depends, FastAPI, Form, Query, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse
from markupsafe import Markup

from demur.audit import changes, reports, runs
from demur.audit.changes import ReportComparison
from demur.audit.periods import next_boundary
from demur.audit.reports import Report, ReportNotFound
from demur.audit.runs import AuditRun, RunStatus
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.wire import ProblemResponse, dump, parse
from demur.serve.web.audit.reports import wire
from demur.serve.web.audit.reports.timeline import SHOWN, timeline
from demur.serve.web.audit.reports.with_bar import with_bar
from demur.serve.web.audit.site import Site
from demur.serve.web.shared.bodies import takes, whole_body
from demur.serve.web.shared.look import root_of

PER_MODEL = 5
"""Reports of each model on the first page."""

PER_PAGE = 50
FARTHEST = 1_000_000
MOST_RUNS = 50
OTHERS = 30
"""Reports that one can be compared with by a click."""

LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)

WINDOWS = {"1": "the last 24 hours", "7": "the last 7 days", "30": "the last 30 days", "90": "the last 90 days"}
"""Ranges that can be asked for, in days."""

MEANINGS = {
    400: "The body is not JSON",
    401: "Nobody knows who you are; the message says how to tell",
    403: "You may not do this",
    404: "There is no such report",
    408: "The body did not come in time (`limits` in the configuration)",
    413: "More than `limits` in the configuration allows",
    422: "Something in the request does not fit; the message says what",
    503: "Not possible right now; try again after `Retry-After` seconds",
}

AS_IT_IS = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none';"
    " frame-ancestors 'none'"
)
"""What a stored report may do: look as it does. It loads nothing, and nothing in it runs."""

Word = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


def add_report_pages(pages: APIRouter, site: Site) -> None:
    """Add the list, one report, and comparisons."""
    config, database, pictures = site.config, site.database, Pictures()

    @pages.get("/")
    def list_reports(request: Request, model: str = "", page_number: int = 1) -> Response:
        page_number = min(max(1, page_number), FARTHEST // PER_PAGE)
        with database.transaction() as connection:
            names = sorted({*config.models, *(report.extent.model for report in reports.latest(connection))})
            shown = [name for name in names if name == model] if model else names
            limit, offset = (PER_PAGE, (page_number - 1) * PER_PAGE) if model else (PER_MODEL, 0)
            listed = {name: reports.listed(connection, model=name, limit=limit + 1, offset=offset) for name in shown}
            lines = {name: reports.listed(connection, model=name, limit=SHOWN) for name in shown}
            open_runs = runs.latest_runs(connection, limit=MOST_RUNS)
        return site.page(
            request,
            "reports.html",
            models=[
                {
                    "name": name,
                    "reports": listed[name][:limit],
                    "more": len(listed[name]) > limit,
                    "picture": pictures.of(lines[name], f"risk-{at}"),
                    "runs": [run for run in open_runs if run.model == name],
                    "served": name in config.models,
                }
                for at, name in enumerate(shown)
            ],
            only=model,
            page_number=page_number,
            windows=WINDOWS,
            window=f"{config.audit.window_days:g}",
            schedule=config.audit.words,
            next=config.audit.every and next_boundary(site.clock(), config.audit.every),
            busy=any(run.status in (RunStatus.WAITING, RunStatus.RUNNING) for run in open_runs),
            known=" ".join(sorted(f"{run.id}:{run.status.value}{run.attempts}" for run in open_runs)),
        )

    @pages.post("/audits")
    def ask(request: Request, model: Annotated[str, Form()], days: Annotated[str, Form()] = "7") -> Response:
        name = site.lead_of(request)
        if days not in WINDOWS and days != f"{config.audit.window_days:g}":
            raise InvalidRequest(f"days: choose one of: {', '.join(WINDOWS)}")
        now = site.clock()
        asked(site, name, model, now - timedelta(days=float(days)), now)
        return to(request, "/", model=model) if len(config.models) > 1 else to(request, "/")

    @pages.get("/reports/{id}")
    def show_report(request: Request, id: UUID) -> Response:
        with database.transaction() as connection:
            report = reports.report(connection, id)
            html = reports.html_of(connection, id)
        headers = {"Content-Security-Policy": AS_IT_IS, "Cache-Control": "no-store"}
        return Response(with_bar(html, report, root_of(request)), media_type="text/html", headers=headers)

    @pages.get("/reports/{id}/compare")
    def compare_with(request: Request, id: UUID, other: str = "") -> Response:
        """The address that the form leads to, and that without a choice: the one before."""
        if other:
            return to(request, f"/reports/{id}/compare/{_uuid(other)}")
        with database.transaction() as connection:
            report = reports.report(connection, id)
        if report.previous_id is None:
            return site.page(request, "first.html", report=report)
        return to(request, f"/reports/{id}/compare/{report.previous_id}")

    @pages.get("/reports/{id}/compare/{other}")
    def compare(request: Request, id: UUID, other: UUID) -> Response:
        with database.transaction() as connection:
            found = compared(connection, id, other)
            model = found.now.extent.model
            line = reports.listed(connection, model=model, until=found.now.extent.until, limit=SHOWN)
            others = [
                report for report in reports.listed(connection, model=model, limit=OTHERS) if report.id != found.now.id
            ]
        return site.page(request, "compare.html", found=found, picture=pictures.of(line, "risk"), others=others)

    def file_route(suffix: str, kind: str, content: Callable[[Any, Report], Response]) -> None:
        @pages.get(f"/reports/{{id}}/report.{suffix}")
        def download(id: UUID) -> Response:
            with database.transaction() as connection:
                report = reports.report(connection, id)
                response = content(connection, report)
            response.headers["Content-Type"] = kind
            response.headers["Content-Disposition"] = f'attachment; filename="{file_name(report)}.{suffix}"'
            response.headers["Content-Security-Policy"] = AS_IT_IS
            return response

    file_route("json", "application/json", lambda connection, of: Response(reports.document_of(connection, of.id)))
    file_route("html", "text/html; charset=utf-8", lambda connection, of: Response(reports.html_of(connection, of.id)))
    file_route("parquet", "application/vnd.apache.parquet", lambda _, of: rows_of(of))


def add_report_api(app: FastAPI, site: Site) -> None:
    """Add every route under /v1/ about reports."""
    config, database = site.config, site.database

    async def read_body(request: Request) -> bytes:
        return await whole_body(request, config.limits.body_bytes)

    @app.get(
        "/v1/reports",
        response_model=wire.ReportList,
        responses=problems(422, 503),
        summary="Reports, newest first",
        tags=["reports"],
    )
    def list_reports(
        model: Word | None = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        offset: Annotated[int, Query(ge=0, le=FARTHEST)] = 0,
    ) -> Response:
        with database.transaction() as connection:
            found = reports.listed(connection, model=model, limit=limit + 1, offset=offset)
        return reply({"reports": [wire.report_json(one) for one in found[:limit]], "more": len(found) > limit})

    @app.get(
        "/v1/reports/{id}",
        response_model=wire.FullReport,
        responses=problems(404, 422, 503),
        summary="A report with every number",
        tags=["reports"],
    )
    def one_report(id: UUID) -> Response:
        with database.transaction() as connection:
            found = wire.report_json(reports.report(connection, id))
            document = reports.document_of(connection, id)
        told = dump(found)[:-1] + b',"document":' + document.strip().encode() + b"}"
        return Response(told, media_type="application/json", headers={"Cache-Control": "no-store"})

    @app.get(
        "/v1/reports/{id}/comparison",
        response_model=wire.ComparisonView,
        responses=problems(404, 422, 503),
        summary="What changed from another report of the same model, by default the one before",
        tags=["reports"],
    )
    def comparison(id: UUID, other: UUID | None = None) -> Response:
        with database.transaction() as connection:
            then = other or reports.report(connection, id).previous_id
            if then is None:
                raise ReportNotFound("there is no report before this one; say with `other` which to compare with")
            return reply(wire.comparison_json(compared(connection, id, then)))

    @app.get(
        "/v1/audits",
        response_model=wire.RunList,
        responses=problems(503),
        summary="Audits that are to be made or being made, and the last ones that led to no report",
        tags=["audits"],
    )
    def list_runs() -> Response:
        with database.transaction() as connection:
            found = runs.latest_runs(connection, limit=MOST_RUNS)
        return reply({"runs": [wire.run_json(run) for run in found]})

    @app.get(
        "/v1/audits/{id}",
        response_model=wire.RunView,
        responses=problems(404, 422, 503),
        summary="What became of an audit that was asked for",
        tags=["audits"],
    )
    def one_run(id: UUID) -> Response:
        with database.transaction() as connection:
            run = runs.run_of(connection, id)
        if run is None:
            raise ReportNotFound(f"there is no audit {id}")
        return reply(wire.run_json(run))

    @app.post(
        "/v1/audits",
        status_code=202,
        response_model=wire.RunView,
        responses=problems(400, 401, 403, 408, 413, 422, 503),
        openapi_extra=takes(wire.AuditRequest),
        summary="Ask for an audit; while one that somebody asked for is open for the model, that one is returned",
        tags=["audits"],
    )
    def ask(request: Request, content: Annotated[bytes, Depends(read_body)]) -> Response:
        name = site.lead_of(request)
        wanted = parse(wire.AuditRequest, content)
        return reply(wire.run_json(asked(site, name, wanted.model, wanted.since, wanted.until or site.clock())), 202)


def asked(site: Site, name: str, model: str, since: datetime, until: datetime) -> AuditRun:
    """Ask for an audit of a model that is served, in a range that has ended."""
    if model not in site.config.models:
        raise InvalidRequest(f"model: there is no model {model!r}; there are: {', '.join(site.config.models)}")
    if not since < until <= site.clock():
        raise InvalidRequest("since, until: a range begins before it ends, and ends now at the latest")
    if since < LONG_AGO:
        raise InvalidRequest("since: choose a moment after 1900")
    with site.database.transaction() as connection:
        return runs.ask(connection, model, since=since, until=until, asked_by=name)


def compared(connection: Any, id: UUID, other: UUID) -> ReportComparison:
    """Hold a report against another one of the same model; the later one is now, whichever was named first."""
    one, two = reports.report(connection, id), reports.report(connection, other)
    if one.extent.model != two.extent.model:
        raise InvalidRequest("reports of different models are not compared; choose two of one model")
    now, then = sorted((one, two), key=lambda of: (of.extent.until, of.made_at), reverse=True)
    return changes.compared(now, then)


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
        svg = timeline(newest_first[::-1], name=name)
        drawn = None if svg is None else Markup(svg)  # noqa: S704 - our own SVG, in which every text is escaped
        with self._lock:
            self._drawn[key] = drawn
            if len(self._drawn) > self.MOST:
                self._drawn.popitem(last=False)
        return drawn


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


def reply(value: Any, status: int = 200) -> Response:
    return Response(dump(value), status, {"Cache-Control": "no-store"}, "application/json")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ProblemResponse, "description": MEANINGS[status]} for status in statuses}


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidRequest("other: choose one of the reports") from None
