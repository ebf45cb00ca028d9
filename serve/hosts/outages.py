"""Which failures of an endpoint are outages, when it may be asked again, and how long to wait until then."""

import math
import random
import time
from collections.abc import Mapping
from datetime import UTC, datetime
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


PROBE_SECONDS = 5.0
"""For so long the others go on without an endpoint while one request tries whether it is back."""


class EndpointAway(EngineFailed):
    """The endpoint could not be asked. `outage` says what happened; nothing is known of the input."""

    def __init__(self, outage: Outage) -> None:
        super().__init__(outage.why)
        self.outage = outage


class Rest:
    """Whether an endpoint was away when it was last asked, and until when nobody asks it who has another one."""

    def __init__(self) -> None:
        self._outage: Outage | None = None
        self._since = ""
        self._failures = 0
        self._until = 0.0

    def is_passed_over(self, now: float) -> bool:
        """Whether it is not to be asked now. After its time one caller is let through, and the others still wait."""
        if self._outage is None:
            return False
        if now < self._until:
            return True
        self._until = now + PROBE_SECONDS
        return False

    def failed(self, outage: Outage, now: float) -> bool:
        """It is away; return whether that is news."""
        news = self._outage is None
        if news:
            self._since = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        self._outage = outage
        self._failures += 1
        self._until = now + pause(self._failures, outage.retry_after)
        return news

    def answered(self) -> bool:
        """It is there; return whether that is news."""
        news = self._outage is not None
        self._outage, self._failures, self._until = None, 0, 0.0
        return news

    @property
    def in_words(self) -> str | None:
        return f"{self._outage.why} (away since {self._since})" if self._outage else None


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
