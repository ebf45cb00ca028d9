"""The names of this service: whether a `Host` or an `Origin` that a browser sends is its own."""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from demur.serve.access.refusals import UnknownHost

HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:@/?#\[\]\\]+)(:\d*)?")
"""A name or an address, and perhaps a port."""

MOST_REMEMBERED = 256

LONGEST_TOLD = 100


class OwnHosts:
    """The hosts as which this service answers.

    A web page can let its own name point at the address of this service and then read what answers under that name
    (DNS rebinding). No page can do so under an address, nor under `localhost`, so these are always known.
    """

    def __init__(self, names: Iterable[str], *, url: str | None = None, any_name: bool = False) -> None:
        """`url` is where people reach the service. With `any_name`, every name is taken for one of its own: where
        callers show who they are, a page under another name has neither their key nor their session."""
        parts = urlsplit(url or "")
        self._names = {"localhost", parts.hostname, *(name.lower() for name in names)}
        self._url = (parts.scheme, parts.netloc.lower())
        self._any_name = any_name
        self._remembered = lru_cache(MOST_REMEMBERED)(self._looked_up)

    def check(self, host: bytes) -> None:
        """Raise `UnknownHost` for a `Host` that is not this service."""
        if not self._remembered(host):
            told = host.decode("latin-1")[:LONGEST_TOLD]
            raise UnknownHost(
                f"this service does not go by the name {told!r}; use its address, or add the name to `http.names` in"
                " the configuration"
            )

    def sent_from_here(self, origin: bytes, host: bytes, forwarded_host: bytes) -> bool:
        """Whether a page of this service has this `Origin`: that of `access.url`, or the host that the request names
        itself. The name may have come to a proxy, which then tells it as `X-Forwarded-Host`; no browser sends that
        for a page of another site."""
        scheme, _, place = origin.decode("latin-1").lower().partition("://")
        if place == self._url[1]:
            return scheme == self._url[0]
        asked = (host, *forwarded_host.split(b","))
        return place in {one.decode("latin-1").strip().lower() for one in asked} - {""}

    def _looked_up(self, host: bytes) -> bool:
        found = HOST.fullmatch(host.decode("latin-1").lower())
        return self._any_name or (found is not None and (found[1] in self._names or _is_address(found[1])))


def _is_address(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
