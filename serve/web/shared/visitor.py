"""Who it is that asks: a name that a person gave once, or that a machine sends with each request."""

from urllib.parse import unquote

from starlette.requests import Request

from demur.serve.access.caller import access_is_on, caller_of
from demur.serve.access.names import LONGEST_NAME, as_name
from demur.serve.config.access import Scope
from demur.serve.config.review import AdminName

COOKIE = "demur-reviewer"
HEADER = "X-Demur-Reviewer"


class NoReviewer(RuntimeError):
    """Nobody knows who is asking. Say it in the header `X-Demur-Reviewer`, or visit the pages and give a name."""


def visitor_of(request: Request) -> str:
    """The name of the caller, an `AdminName` for whoever has the scope `admin`. Where access is off it is what the
    header says or else the cookie, with bytes beyond ASCII percent-encoded. Raises `NoReviewer`."""
    if access_is_on(request.scope):
        if (caller := caller_of(request.scope)) is None:
            raise NoReviewer("nobody knows who you are; log in, or send a key as `Authorization: Bearer demur_...`")
        return AdminName(caller.name) if caller.may(Scope.ADMIN) else caller.name
    told = unquote(request.headers.get(HEADER) or request.cookies.get(COOKIE, ""))
    if not told.strip():
        raise NoReviewer(f"say who you are: put your name into the header {HEADER}")
    name = as_name(told)
    if name is None:
        raise NoReviewer(f"{HEADER}: a name has 1 to {LONGEST_NAME} characters, all of them printable")
    return name
