"""How every page looks, and what a browser may do with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import ChoiceLoader, Environment, PackageLoader, select_autoescape

from demur.audit.visible import SentBack, visible

FOLDER = Path(__file__).parent / "templates"
STYLE = FOLDER / "style.css"
LOGIN_SCRIPT = FOLDER / "login.js"

KINDS = {".css": "text/css", ".js": "text/javascript"}

ONLY_OURS = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page may load, and from where: text that came with a case can do nothing, even if it were taken for HTML."""

WITH_PICTURES = ONLY_OURS.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""The same where pictures are drawn in the page: what they are made of carries its own style."""


@dataclass(frozen=True)
class OurFiles:
    """Style sheets and scripts, by name, each with its media type."""

    contents: Mapping[str, tuple[bytes, str]]

    @property
    def version(self) -> str:
        """Part of their addresses, so that a browser may keep them for ever."""
        return sha256(b"".join(content for content, _ in self.contents.values())).hexdigest()[:12]


def our_files(*more: Path) -> OurFiles:
    """The style of all pages, and the files of one application."""
    return OurFiles({path.name: (path.read_bytes(), KINDS[path.suffix]) for path in (STYLE, *more)})


def templates_of(package: str, files: OurFiles) -> Environment:
    """The templates of one application, over those that all share."""
    found = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("demur.serve.web.shared")]),
        autoescape=select_autoescape(),
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["version"] = files.version
    found.filters["sent_back"] = SentBack
    return found


def add_files(router: APIRouter, files: OurFiles) -> None:
    """Serve them under /static/."""

    @router.get("/static/{version}/{name}")
    def our_file(version: str, name: str) -> Response:
        found = files.contents.get(name)
        if found is None:
            return Response(status_code=404)
        kept = "public, max-age=31536000, immutable" if version == files.version else "no-cache"
        return Response(found[0], media_type=found[1], headers={"Cache-Control": kept})


def page_response(html: str, status: int = 200, *, pictures: bool = False) -> HTMLResponse:
    """A page that nobody keeps and that loads nothing of others. `pictures`: some are drawn in it."""
    policy = WITH_PICTURES if pictures else ONLY_OURS
    return HTMLResponse(html, status, {"Cache-Control": "no-store", "Content-Security-Policy": policy})


def root_of(request: Request) -> str:
    """The prefix under which the pages are mounted."""
    return str(request.scope.get("root_path", ""))


def beside(request: Request, name: str) -> str:
    """The prefix of another application of ours, mounted beside this one: `/audit` beside `/review`."""
    return f"{root_of(request).rpartition('/')[0]}/{name}"
