"""The auditors' application: reports, how they compare, alarms; an API over them; metrics."""

import logging
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from prometheus_client.registry import Collector

from demur.audit.state.alarms import AlarmNotFound
from demur.audit.state.reports import ReportNotFound
from demur.audit.state.runs import TooManyAsked
from demur.review.queue import NotYours
from demur.serve.access.described import describe_access, describe_refusals
from demur.serve.access.needs import AUDIT
from demur.serve.config.access import AccessConfig
from demur.serve.config.file import Config
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.audit.control.gauges import ControlCollector
from demur.serve.web.audit.control.pages import add_control_routes
from demur.serve.web.audit.monitors.gauges import MonitorCollector
from demur.serve.web.audit.monitors.pages import UndoAlarmRequest, add_monitor_routes
from demur.serve.web.audit.reports import api as report_api
from demur.serve.web.audit.reports import pages as report_pages
from demur.serve.web.audit.reports.gauges import AuditCollector
from demur.serve.web.audit.reports.wire import AuditRequest
from demur.serve.web.audit.site import FILES, Site, add_site
from demur.serve.web.errors import status_of
from demur.serve.web.shared.bodies import describe
from demur.serve.web.shared.body_limits import add_body_limits
from demur.serve.web.shared.browser_headers import add_browser_headers
from demur.serve.web.shared.cookies import PlainCookies
from demur.serve.web.shared.docs import add_docs
from demur.serve.web.shared.hello import add_hello
from demur.serve.web.shared.known_queries import only_known
from demur.serve.web.shared.look import add_files
from demur.serve.web.shared.metrics import add_metrics_route
from demur.serve.web.shared.problems import add_problems
from demur.serve.web.shared.storable import only_storable
from demur.serve.web.shared.visitor import HEADER
from demur.traffic.database import Database, DatabaseUnavailable

log = logging.getLogger("demur.audits")

DESCRIPTION = f"""
Was the promise kept? Reports that were made on a schedule or because somebody asked, every number of them, and how two
of them compare. Reading needs no name; whoever asks for an audit says who they are with the header `{HEADER}`.
"""

COLLECTORS: tuple[Callable[[Config, Database], Collector], ...] = (AuditCollector, MonitorCollector, ControlCollector)
"""What /metrics tells of; each describes itself without the database."""


def audits_app(config: Config, database: Database) -> FastAPI:
    """The application as ASGI, under whatever prefix it is mounted."""
    app = FastAPI(
        title="demur audit",
        description=DESCRIPTION,
        version="1",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(only_storable)],
    )
    site = add_site(app, config, database)
    add_body_limits(app, config.limits)
    add_browser_headers(app)
    app.add_middleware(PlainCookies)
    add_docs(app, of="Audits")
    pages = APIRouter(include_in_schema=False)
    add_files(pages, FILES)
    add_hello(app, pages, site.page, back_to="/")
    _add_trouble(app, site)

    app.include_router(pages)
    app.include_router(report_pages.router)
    app.include_router(report_api.router, dependencies=[Depends(only_known)])
    add_control_routes(app, config, database, site.page)
    add_monitor_routes(app, site)
    add_metrics_route(app, [make(config, database) for make in COLLECTORS])
    add_problems(app, log)
    app.openapi = lambda: _openapi(app, config.access)  # type: ignore[method-assign]
    return app


def _add_trouble(app: FastAPI, site: Site) -> None:
    async def tell(request: Request, error: Exception) -> Response:
        return site.page(request, "trouble.html", status_of(error), message=str(error))

    for kind in (NotYours, ReportNotFound, InvalidRequest, TooManyAsked, AlarmNotFound, DatabaseUnavailable):
        app.add_exception_handler(kind, tell)


def _openapi(app: FastAPI, access: AccessConfig | None) -> dict[str, Any]:
    """The document of the API; pages are for people."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, servers=app.servers
        )
        document["paths"] = {path: told for path, told in document["paths"].items() if path.startswith("/v1/")}
        describe(document["components"]["schemas"], AuditRequest, UndoAlarmRequest)
        describe_refusals(document)
        if access is not None and access.mode == "keys":
            describe_access(document, AUDIT, cookie=access.cookie)
        app.openapi_schema = document
    return app.openapi_schema
