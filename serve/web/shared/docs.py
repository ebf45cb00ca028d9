"""The page at /docs: Swagger UI, with a script of our own. Nothing is loaded from elsewhere, and no script is in the
page."""

from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse
from jinja2 import Environment, PackageLoader, select_autoescape

from demur.audit.visible import visible
from demur.serve.web.shared.look import ONLY_OURS, root_of

SWAGGER_UI = Path(__file__).parent / "swagger_ui"

FILES = {
    "swagger-ui-bundle.js": SWAGGER_UI / "swagger-ui-bundle.js",
    "swagger-ui.css": SWAGGER_UI / "swagger-ui.css",
    "docs.js": Path(__file__).parent / "templates/docs.js",
}
"""All that is served."""

PAGES = Environment(loader=PackageLoader("demur.serve.web.shared"), autoescape=select_autoescape(), finalize=visible)


def add_docs(app: FastAPI) -> None:
    """Add `/docs` over the application's document."""

    @app.get("/docs", include_in_schema=False)
    def docs(request: Request) -> Response:
        html = PAGES.get_template("docs.html").render(
            title=app.title, root=root_of(request), document=f"{root_of(request)}{app.openapi_url}"
        )
        return Response(html, headers={"Content-Security-Policy": ONLY_OURS}, media_type="text/html")

    @app.get("/docs/{name}", include_in_schema=False)
    def docs_file(name: str) -> Response:
        file = FILES.get(name)
        if file is None:
            return Response(status_code=404)
        return FileResponse(file, headers={"Cache-Control": "no-cache"})
