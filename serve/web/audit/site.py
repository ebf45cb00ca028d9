"""What the pages of the auditors share: how one is rendered, and who may act."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse

from demur.review.queue import NotYours
from demur.serve.config.file import Config
from demur.serve.web.audit.alarms import alarms_on
from demur.serve.web.review.words import FILTERS
from demur.serve.web.shared.bodies import whole_body
from demur.serve.web.shared.header import header_of
from demur.serve.web.shared.look import beside, our_files, page_response, templates_of
from demur.serve.web.shared.quantities import date, figure_in_words, interval_in_words, number, percent, points
from demur.serve.web.shared.visitor import NoReviewer, visitor_of
from demur.traffic.database import Database

FOLDER = Path(__file__).parent / "templates"
FILES = our_files(FOLDER / "audits.css", FOLDER / "audits.js", FOLDER / "monitors.js")

WORDS = {
    "value": figure_in_words,
    "interval": interval_in_words,
    "difference": lambda change: points(change.difference) if change.now.share else number(change.difference),
    "points": points,
    "percent_or_dash": lambda share: percent(share, 1),
    "date": lambda at: date(at.astimezone(UTC)),
}
"""As templates call them, beside those of the console."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """The application's configuration and database, as its pages use them."""

    config: Config
    database: Database
    templates: Any
    clock: Callable[[], datetime]

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a template of `serve/web/audit/templates`; the alarms that are on stand above it."""
        name = name_of(request)
        html = self.templates.get_template(template).render(
            **header_of(request, top=beside(request, "")[:-1], here="Audit", name=name),
            may_act=self.config.review.leads(name),
            now=self.clock(),
            alarms=alarms_on(self.database),
            **values,
        )
        return page_response(html, status, pictures=True)

    def lead_of(self, request: Request) -> str:
        """The name of whoever asks, where they may act; else raise `NoReviewer` or `NotYours`."""
        name = visitor_of(request)
        if not self.config.review.leads(name):
            raise NotYours("only those who lead reviews (`review.people`) may do this")
        return name


def add_site(app: FastAPI, config: Config, database: Database) -> Site:
    """Let the routes of an application find its site."""
    templates = templates_of("demur.serve.web.audit", FILES)
    templates.filters.update({**FILTERS, **WORDS})
    site = Site(config=config, database=database, templates=templates, clock=lambda: datetime.now(UTC))
    app.state.site = site
    return site


async def site_of(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


async def read_body(request: Request) -> bytes:
    return await whole_body(request, (await site_of(request)).config.limits.body_bytes)


CurrentSite = Annotated[Site, Depends(site_of)]
Content = Annotated[bytes, Depends(read_body)]


def name_of(request: Request) -> str:
    """Who asks; empty for somebody who has not said. Reading needs no name."""
    try:
        return visitor_of(request)
    except NoReviewer:
        return ""
