"""The use of an Idempotency-Key: whose it is, and the digest of what was asked under it."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import orjson

from demur.serve.access.caller import Caller, owner_of
from demur.serve.contract import wire
from demur.serve.contract.inputs import InvalidRequest
from demur.traffic.record import KeyUse

SECOND = b"\x02"
"""Before a digest of the second kind, which is over JSON as orjson writes it. One of the first kind has nothing before
it, and is over JSON as Python's own library writes it, which takes thirty times as long."""


def key_use(key: str | None, caller: Caller | None, request: Callable[[], list[Any]]) -> KeyUse | None:
    """The use of a key by the first (or only) item of a request; the order of its JSON keys does not matter. None
    without a key. The request need not be checked yet: it may hold anything JSON can."""
    checked = wire.checked_key(key)
    if checked is None:
        return None
    asked = request()
    try:
        canonical = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        raise InvalidRequest(
            "Idempotency-Key: under a key a body may be nested 250 levels deep, and its integers have up to 64 bits"
        ) from None
    return KeyUse(
        key=checked,
        owner=owner_of(caller),
        position=0,
        fingerprint=SECOND + sha256(canonical).digest(),
        earlier=lambda: sha256(json.dumps(asked, sort_keys=True).encode()).digest(),
    )
