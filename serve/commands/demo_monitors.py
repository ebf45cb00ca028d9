"""What the monitors of a service say once traffic was replayed: which alarm, about which artifact, since when."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

WAIT_SECONDS = 40.0
"""Monitors take in a record when it is some seconds old, and look every few seconds."""

BETWEEN_LOOKS = 1.0
ASKED_SECONDS = 10.0
PATH = "/audit/v1/monitors"

ABOUT = {
    "risk": "the risk",
    "confidence": "the confidences",
    "held": "the share held",
    "audit": "an audit",
}


@dataclass(frozen=True, kw_only=True)
class MonitorsSeen:
    """What the monitors of one model know."""

    records: int
    """That they have taken in, over all artifacts."""

    says: Sequence[str]
    """How each artifact stands, in sentences."""

    alarms: Sequence[Mapping[str, Any]]
    """Those in force, the earliest first."""

    watched: bool
    """Whether the service watches the model at all. Of one that has had no traffic it says nothing yet."""


class DemoMonitors:
    """Asks a running service for the monitors of a model. Where that cannot be done it says why, and nothing fails."""

    def __init__(
        self,
        url: str,
        model: str,
        key: str | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model, self._sleep, self._clock = model, sleep, clock
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=ASKED_SECONDS, transport=transport)
        self._page = f"{url}/audit/monitors"
        self._trouble = ""
        before = self._seen()
        self._known = 0 if before is None else before.records
        self._old = set() if before is None else {one["id"] for one in before.alarms}

    def after(self, n: int) -> list[str]:
        """Return what they say once `n` further records were taken in, or nothing more comes; and where to read on."""
        ends, seen = self._clock() + WAIT_SECONDS, self._seen()
        while seen is not None and seen.watched and seen.records < self._known + n and self._clock() < ends:
            self._sleep(BETWEEN_LOOKS)
            seen = self._seen()
        self._http.close()
        if seen is None:
            return [f"monitors: {self._trouble}"]
        if not seen.watched:
            return [f"monitors: nobody watches {self._model}; give it a `spot_check`, such as 0.05"]
        missing = self._known + n - seen.records
        lines = [f"monitors: {one}" for one in seen.says]
        lines += [self._line(one) for one in seen.alarms]
        lines += [f"monitors: {missing:,} of these records are not taken in yet"] if missing > 0 else []
        return [*lines, f"all monitors: {self._page}"]

    def _line(self, alarm: Mapping[str, Any]) -> str:
        since = datetime.fromisoformat(alarm["raised_at"])
        new = "" if alarm["id"] not in self._old else ", as before"
        about = ABOUT.get(alarm["kind"], alarm["kind"])
        return (
            f"ALARM about {about} of {alarm['model']}, artifact {alarm['artifact']}, since"
            f" {since:%Y-%m-%d %H:%M:%S} UTC{new}: {alarm['words']}"
        )

    def _seen(self) -> MonitorsSeen | None:
        try:
            reply = self._http.get(PATH)
            reply.raise_for_status()
            told = reply.json()
            own = [one for one in told["monitors"] if one["model"] == self._model]
            alarms = [one for one in told["alarms"] if one["model"] == self._model]
            return MonitorsSeen(
                records=sum(one["records"] for one in own),
                says=[f"{one['artifact']}: {one['says']} {one['traffic_says']}" for one in own],
                alarms=sorted(alarms, key=lambda one: one["id"]),
                watched=self._model not in told.get("unwatched", {}),
            )
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            self._trouble = f"they could not be read at {self._page}: {_why(error)}"
            return None


def _why(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return f"the service answered {status}" + (
            "; a key with the scope `audit` may read them" if status in (401, 403) else ""
        )
    return f"{type(error).__name__}: {error}"
