"""What the pages at the root share: the parts of the gateway that they show, and how one is rendered."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from jinja2 import Environment

from demur.serve.config.file import Config
from demur.serve.fitting.artifact_service import ArtifactService
from demur.serve.gateway.handler import Handler
from demur.serve.web.front.examples import ModelExamples
from demur.serve.web.shared.header import header_of
from demur.serve.web.shared.look import our_files, page_response, root_of, templates_of
from demur.serve.web.shared.quantities import date, duration, percent
from demur.serve.web.shared.visitor import NoReviewer, visitor_of
from demur.traffic.database import Database

FOLDER = Path(__file__).parent / "templates"

FILES = our_files(*(FOLDER / name for name in ("front.css", "live.js", "try.js")))

WORDS = {
    "date": lambda at: date(at.astimezone(UTC)),
    "duration": duration,
    "percent": percent,
    "count": lambda n: f"{n:,}",
}
"""Filters of the templates, by name."""


@dataclass(frozen=True, kw_only=True)
class FrontSite:
    """What the pages at the root show, and their templates."""

    handler: Handler
    artifacts: ArtifactService
    examples: ModelExamples
    templates: Environment
    clock: Callable[[], datetime]

    @property
    def config(self) -> Config:
        return self.handler.config

    @property
    def database(self) -> Database:
        return self.handler.database

    async def limit_of(self, model: str) -> float | None:
        """The confidence from which the artifact in force answers; None where it is no limit on confidence."""
        return await asyncio.to_thread(self.artifacts.limit_in_force, model)

    def page(self, request: Request, template: str, status: int = 200, *, here: str = "", **values: Any) -> Response:
        """Render a template of `serve/web/front/templates`. `here` is the door behind which it lies."""
        header = header_of(request, top=root_of(request), here=here, name=name_of(request))
        html = self.templates.get_template(template).render(**header, now=self.clock(), **values)
        return page_response(html, status)


def add_site(app: FastAPI, handler: Handler, artifacts: ArtifactService) -> FrontSite:
    """Let the routes of an application find its site."""
    templates = templates_of("demur.serve.web.front", FILES)
    templates.filters.update(WORDS)
    site = FrontSite(
        handler=handler,
        artifacts=artifacts,
        examples=ModelExamples(handler),
        templates=templates,
        clock=lambda: datetime.now(UTC),
    )
    app.state.front = site
    return site


async def site_of(request: Request) -> FrontSite:
    site: FrontSite = request.app.state.front
    return site


Site = Annotated[FrontSite, Depends(site_of)]


def name_of(request: Request) -> str:
    """Who asks; empty for somebody who has not said."""
    try:
        return visitor_of(request)
    except NoReviewer:
        return ""
