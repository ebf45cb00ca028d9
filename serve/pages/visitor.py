"""Who it is that asks: a name that a person gave once, or that a machine sends with each request."""

from urllib.parse import unquote, urlsplit

from fastapi import Request
from starlette.datastructures import Headers

from serve.inputs import InvalidRequest

COOKIE = "demur-reviewer"
HEADER = "X-Demur-Reviewer"
LONGEST_NAME = 100


class NoReviewer(RuntimeError):
    """Nobody knows who is asking. Say it in the header `X-Demur-Reviewer`, or visit the pages and give a name."""


class FromElsewhere(PermissionError):
    """A page of another site must not act for the person who is known here. Use the pages of this service."""


def visitor_of(request: Request) -> str:
    """The name in the header or else in the cookie, where bytes beyond ASCII are percent-encoded; else `NoReviewer`."""
    told = unquote(request.headers.get(HEADER) or request.cookies.get(COOKIE, ""))
    if not told.strip():
        raise NoReviewer(f"say who you are: put your name into the header {HEADER}")
    name = as_name(told)
    if name is None:
        raise NoReviewer(f"{HEADER}: a name has 1 to {LONGEST_NAME} characters, all of them printable")
    return name


def as_name(told: str) -> str | None:
    """A person's name in the one form in which it is kept; None for what cannot be one."""
    name = " ".join(told.split())
    return name if name and name.isprintable() and len(name) <= LONGEST_NAME else None


async def only_storable(request: Request) -> None:
    """Raise `InvalidRequest` where a query holds the character 0: no text in the database does."""
    if any("\0" in value for value in request.query_params.values()):
        raise InvalidRequest("a query with the character 0 fits nothing that is stored; leave it out")


async def only_from_here(request: Request) -> None:
    """Raise `FromElsewhere` for what a page of another site sent. Browsers say where a request comes from: with
    `Sec-Fetch-Site`, and without HTTPS, where they leave that out, with `Origin`."""
    if request.method == "POST" and not _is_from_here(request.headers):
        raise FromElsewhere("this was sent from a page of another site")


def _is_from_here(headers: Headers) -> bool:
    if site := headers.get("sec-fetch-site"):
        return site == "same-origin"
    origin = headers.get("origin")
    if origin is None:  # no browser
        return True
    ours = (headers.get("host"), headers.get("x-forwarded-host"))
    return urlsplit(origin).netloc.lower() in {host.strip().lower() for host in ours if host}
