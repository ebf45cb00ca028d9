"""The page at /docs: what an application answers, from its OpenAPI document. Each example can be sent from there."""

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from markdown_it import MarkdownIt
from markupsafe import Markup

from demur.serve.access.caller import access_is_on, caller_of
from demur.serve.config.access import Scope
from demur.serve.web.shared.doors import may
from demur.serve.web.shared.header import header_of
from demur.serve.web.shared.look import FOLDER, our_files, page_response, templates_of
from demur.serve.web.shared.reference import Bodies, groups_of

FILES = our_files(FOLDER / "docs.css", FOLDER / "docs.js")
MARKS = MarkdownIt("zero").enable(["backticks", "emphasis"])
"""What is marked in a description: code, and words that are stressed. All else is text."""


def in_line(description: str) -> Markup:
    """A description of the document, as HTML within a paragraph."""
    return Markup(MARKS.renderInline(description))  # noqa: S704 - escaped but for the marks above


PAGES = templates_of("demur.serve.web.shared", FILES)
PAGES.filters["in_line"] = in_line

APIS = {"Predictions": "", "Review": "/review", "Audits": "/audit"}
"""The documents of the service, and the prefixes under which each has its page."""

OwnBodies = Callable[[], Awaitable[Bodies]]


async def no_bodies() -> dict[str, Any]:
    """The examples that the document makes by itself will do."""
    return {}


def add_docs(app: FastAPI, *, of: str, bodies: OwnBodies = no_bodies) -> None:
    """Add `/docs` over the application's document. `of` is its name in `APIS`; `bodies` finds, by operation, what can
    be sent that means something here."""

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        root = str(request.scope.get("root_path", ""))
        caller = caller_of(request.scope)
        header = header_of(request, top=root.removesuffix(APIS[of]), here="API", name=caller.name if caller else "")
        predicts = may(request, Scope.PREDICT) and (caller is None or caller.models is None)
        html = PAGES.get_template("docs.html").render(
            **header,
            title=app.title,
            description=app.description,
            document=f"{root}{app.openapi_url}",
            groups=groups_of(app.openapi(), await bodies() if predicts else {}),
            apis=APIS,
            of=of,
            asks=access_is_on(request.scope),
            base=str(request.base_url).rstrip("/"),
        )
        return page_response(html)

    @app.get("/docs/{name}", include_in_schema=False)
    def docs_file(name: str) -> Response:
        found = FILES.contents.get(name)
        if found is None:
            return Response(status_code=404)
        return Response(found[0], media_type=found[1], headers={"Cache-Control": "no-cache"})
