"""The layer that stands before every application: no page of another site uses the service through a browser."""

from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from demur.serve.access.own_hosts import OwnHosts
from demur.serve.access.refusals import FormRefused, FromElsewhere, UnknownHost
from demur.serve.web.login.refused import send_problem, send_sentence
from demur.serve.web.problems import path_of

FROM_HERE = "demur.from_here"
"""Where an ASGI scope says whether a page of this service sent what changes something; not there where the request does
not tell."""

CHANGES_NOTHING = ("GET", "HEAD", "OPTIONS")

FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain")
"""Content types that a form on any page can send without being asked first."""

UPLOADS = ("/v1/predict", "/v1/predict/batch")
"""Where programs may send files as a form."""

UPLOAD = b"multipart/form-data"

BROWSERS = (b"mozilla/", b"opera/")
"""How every browser calls itself, whatever page sends a request: so old ones are known that do not say from where."""

FOR_MACHINES = ("/v1/", "/v2", "/metrics", "/healthz", "/openapi.json")
"""Where applications with pages take JSON, and answer with it."""


Headers = Mapping[bytes, bytes]


class BrowserGuard:
    """An application that pages of other sites cannot use.

    Browsers say where a request that changes something comes from: in `Sec-Fetch-Site` or in `Origin`. Very old ones
    are known by a form's content type alone, or by their own name where programs send forms too. A key in a header
    shows that no page of another site sent the request, because a browser would have asked for leave first (CORS),
    which nobody here gives.
    """

    def __init__(self, app: ASGIApp, hosts: OwnHosts, *, has_pages: bool = False) -> None:
        """`has_pages`: people come to this application, and send forms outside of /v1/."""
        self._app, self._hosts, self._has_pages = app, hosts, has_pages
        self.routes = getattr(app, "routes", [])  # Ray names requests in its metrics by them

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope)
            except (UnknownHost, FromElsewhere, FormRefused) as error:
                for_people = self._has_pages and not path_of(scope).startswith(FOR_MACHINES)
                await (send_sentence(error, send) if for_people else send_problem(scope, error, send))
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if (host := headers.get(b"host")) is not None:  # without one, as HTTP/1.0 allows, it is no browser
            self._hosts.check(host)
        if scope["method"] in CHANGES_NOTHING:
            return
        if b"origin" in headers or b"sec-fetch-site" in headers:
            scope[FROM_HERE] = here = self._sent_from_here(headers)
            if not here and not _shows_key(headers):
                raise FromElsewhere(
                    "this was sent from a page of another site; if it was a page of this service, set `access.url` to"
                    " where people reach it"
                )
        elif _is_form(headers) and self._takes_json(scope) and not _shows_key(headers):
            if path_of(scope) not in UPLOADS or _kind_of(headers) != UPLOAD:
                raise FormRefused(
                    "the body was sent as a form, as any web page can do; send it with `Content-Type: application/json`"
                )
            if headers.get(b"user-agent", b"").lower().startswith(BROWSERS):
                raise FormRefused(
                    "the files were sent as a form by what calls itself a browser (User-Agent), as any web page can"
                    " make one do; show a key (X-Api-Key), or send JSON with `Content-Type: application/json`"
                )

    def _sent_from_here(self, headers: Headers) -> bool:
        """Whether a page of this service sent a request that says where it comes from."""
        if (site := headers.get(b"sec-fetch-site")) is not None:
            return site == b"same-origin"
        host, forwarded = headers.get(b"host", b""), headers.get(b"x-forwarded-host", b"")
        return self._hosts.sent_from_here(headers[b"origin"], host, forwarded)

    def _takes_json(self, scope: Any) -> bool:
        return not self._has_pages or path_of(scope).startswith(FOR_MACHINES)


def _kind_of(headers: Headers) -> bytes:
    return headers.get(b"content-type", b"").partition(b";")[0].strip().lower()


def _is_form(headers: Headers) -> bool:
    kind = headers.get(b"content-type", b"")
    return kind != b"application/json" and kind.lower().lstrip().startswith(FORMS)


def _shows_key(headers: Headers) -> bool:
    """Whether the request holds what no browser adds by itself; a password (`Basic`) it may."""
    return b"x-api-key" in headers or headers.get(b"authorization", b"")[:7].lower() == b"bearer "
