"""Where a service is, and the key for it: given, or from the environment."""

import os
import re
from dataclasses import dataclass, field

import httpx

from demur.client.errors import DemurError

URL = "DEMUR_URL"
KEY = "DEMUR_KEY"
DEFAULT = "http://127.0.0.1:8000"

KEYS_BEGIN = "demur_"

HOST = re.compile(rb"[0-9A-Za-z._:-]+")

VISIBLE = re.compile(r"[\x21-\x7e]+")
"""What a header can hold, without blanks."""


class BadAddress(DemurError):
    """The address, or the key, cannot be used. The message never shows the key."""


@dataclass(frozen=True)
class Address:
    """An address that can be asked, and the key that is shown there."""

    url: str = field(repr=False)
    """It may hold a password."""

    key: str | None = field(repr=False)
    shown: str
    """The address without a name and a password in it."""


def address_of(url: str | None, key: str | None) -> Address:
    """The address and the key: as given, else from DEMUR_URL and DEMUR_KEY, else this machine without a key."""
    told = (url if url is not None else os.environ.get(URL) or DEFAULT).strip()
    try:
        parsed = httpx.URL(told)
    except (httpx.InvalidURL, TypeError):
        raise BadAddress(f"the address of the service cannot be read; write one such as {DEFAULT}") from None
    secret = (key if key is not None else os.environ.get(KEY) or "").strip()
    if parsed.scheme not in ("http", "https") or not HOST.fullmatch(parsed.raw_host):
        raise BadAddress(f"{_shown(told)} is no address of a service; write one such as {DEFAULT}")
    if parsed.userinfo and secret:
        raise BadAddress(
            "the address has a name and a password in it, and there is a key as well; leave one of them out"
        )
    shown = str(parsed.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")
    if secret and not VISIBLE.fullmatch(secret):
        raise BadAddress(
            "the key holds blanks or characters that no key has; give it as it was printed when it was made"
        )
    return Address(told, secret or None, shown)


def _shown(told: str) -> str:
    """What was given as an address, without what may be secret in it."""
    if told.startswith(KEYS_BEGIN):
        return "what was given looks like a key, which goes to `key`; it"
    return repr(told.rpartition("@")[2][:200])
