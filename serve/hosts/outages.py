"""Which failures of an endpoint are outages, when it may be asked again, and how long to wait until then."""

import math
import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from demur.serve.contract.engine import EngineFailed
from demur.uncertainty.generation import Outage

PASSING = frozenset({408, 409, 425, 429})
"""Statuses, beside 5xx, after which the same request may succeed."""

LASTING = frozenset({401, 402, 403, 404, 405, 407, 410, 421, 501, 505})
"""Statuses that every request would get until somebody mends something: a key, a name, an address."""

USED_UP = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""Codes beside a 429 that waiting does not help."""

LONGEST_RETRY_AFTER = 300.0
"""Seconds; an endpoint that names a longer time is asked, and callers are told to ask, after this one."""

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 8.0


class EndpointAway(EngineFailed):
    """The endpoint could not be asked. `outage` says what happened; nothing is known of the input."""

    def __init__(self, outage: Outage) -> None:
        super().__init__(outage.why)
        self.outage = outage


def outage_of_status(status: int, code: str | None = None) -> bool | None:
    """Whether an outage of this HTTP status passes by itself; None where the status is none of an outage, but a word
    about the request."""
    if status in PASSING:
        return code not in USED_UP
    if status in LASTING or 300 <= status < 400:
        return False
    return True if status >= 500 else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an endpoint asks to wait, bounded; None where it names none, or nothing that can be read."""
    milliseconds, seconds = headers.get("retry-after-ms"), headers.get("retry-after")
    for told, each in ((milliseconds, 1000.0), (seconds, 1.0)):
        wait = _number(told) / each
        if math.isfinite(wait) and wait >= 0:
            return min(wait, LONGEST_RETRY_AFTER)
    try:
        at = parsedate_to_datetime(seconds or "").timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(at - time.time(), 0.0), LONGEST_RETRY_AFTER)


def pause(tries: int, named: float | None) -> float:
    """Seconds to wait after so many tries: what the endpoint named, or a growing time with jitter."""
    if named is not None:
        return named
    grown = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 10))
    return grown * (1 - 0.25 * random.random())  # noqa: S311 - nothing secret hangs on it


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan
