"""The API of reports, and of audits that are asked for."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from demur.audit.state import reports, runs
from demur.audit.state.reports import ReportNotFound
from demur.serve.contract.wire import ProblemResponse, dump, parse
from demur.serve.web.audit.reports import wire
from demur.serve.web.audit.reports.asking import FARTHEST, MOST_RUNS, asked, compared
from demur.serve.web.audit.site import Content, CurrentSite
from demur.serve.web.shared.bodies import takes

MEANINGS = {
    400: "The body is not JSON",
    401: "Nobody knows who you are; the message says how to tell",
    403: "You may not do this",
    404: "There is no such report",
    408: "The body did not come in time (`limits` in the configuration)",
    413: "More than `limits` in the configuration allows",
    422: "Something in the request does not fit; the message says what",
    429: "Too many audits of the model are open; ask again when some are done",
    503: "Not possible right now; try again after `Retry-After` seconds",
}

Word = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]

router = APIRouter(tags=["Reports"])


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ProblemResponse, "description": MEANINGS[status]} for status in statuses}


@router.get(
    "/v1/reports",
    response_model=wire.ReportList,
    responses=problems(422, 503),
    summary="Reports, newest first",
    tags=["reports"],
)
def list_reports(
    site: CurrentSite,
    model: Word | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=FARTHEST)] = 0,
) -> Response:
    with site.database.transaction() as connection:
        found = reports.listed(connection, model=model, limit=limit + 1, offset=offset)
    return reply({"reports": [wire.report_json(one) for one in found[:limit]], "more": len(found) > limit})


@router.get(
    "/v1/reports/{id}",
    response_model=wire.FullReport,
    responses=problems(404, 422, 503),
    summary="A report with every number",
    tags=["reports"],
)
def one_report(site: CurrentSite, id: UUID) -> Response:
    with site.database.transaction() as connection:
        found = wire.report_json(reports.report(connection, id))
        document = reports.document_of(connection, id)
    told = dump(found)[:-1] + b',"document":' + document.strip().encode() + b"}"
    return Response(told, media_type="application/json", headers={"Cache-Control": "no-store"})


@router.get(
    "/v1/reports/{id}/comparison",
    response_model=wire.ComparisonView,
    responses=problems(404, 422, 503),
    summary="What changed from another report of the same model, by default the one before",
    tags=["reports"],
)
def comparison(site: CurrentSite, id: UUID, other: UUID | None = None) -> Response:
    with site.database.transaction() as connection:
        then = other or reports.report(connection, id).previous_id
        if then is None:
            raise ReportNotFound("there is no report before this one; say with `other` which to compare with")
        return reply(wire.comparison_json(compared(connection, id, then)))


@router.get(
    "/v1/audits",
    response_model=wire.RunList,
    responses=problems(503),
    summary="Audits that are to be made or being made, and the last ones that led to no report",
    tags=["audits"],
)
def list_runs(site: CurrentSite) -> Response:
    with site.database.transaction() as connection:
        found = runs.latest_runs(connection, limit=MOST_RUNS)
    return reply({"runs": [wire.run_json(run) for run in found]})


@router.get(
    "/v1/audits/{id}",
    response_model=wire.RunView,
    responses=problems(404, 422, 503),
    summary="What became of an audit that was asked for",
    tags=["audits"],
)
def one_run(site: CurrentSite, id: UUID) -> Response:
    with site.database.transaction() as connection:
        run = runs.run_of(connection, id)
    if run is None:
        raise ReportNotFound(f"there is no audit {id}")
    return reply(wire.run_json(run))


@router.post(
    "/v1/audits",
    status_code=202,
    response_model=wire.RunView,
    responses=problems(400, 401, 403, 408, 413, 422, 429, 503),
    openapi_extra=takes(wire.AuditRequest),
    summary="Ask for an audit; one of the same range that is still open is returned instead",
    tags=["audits"],
)
def ask(request: Request, site: CurrentSite, content: Content) -> Response:
    name = site.lead_of(request)
    wanted = parse(wire.AuditRequest, content)
    return reply(wire.run_json(asked(site, name, wanted.model, wanted.since, wanted.until or site.clock())), 202)


def reply(value: Any, status: int = 200) -> Response:
    return Response(dump(value), status, {"Cache-Control": "no-store"}, "application/json")
