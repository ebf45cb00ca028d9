"""How a client is set up, whether it waits in threads or with `await`."""

import math
import random
import time
from collections.abc import Callable
from typing import Any

import httpx

from demur.client.address import address_of
from demur.client.api import Api
from demur.client.artifact_api import ArtifactApi
from demur.client.steps import Attempts
from demur.client.transfer import base_headers

SECONDS = 60.0
"""For so long one thing is asked for, with all its retries, unless the caller says otherwise."""

CONNECTIONS = 4


def seconds_of(timeout: float | None) -> float:
    """Return for how many seconds something is asked for; None is no limit. Raises `ValueError`."""
    if timeout is None:
        return math.inf
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise ValueError(f"timeout is a number of seconds above 0, or None for no limit, and not {timeout!r}")
    return float(timeout)


class Settings:
    """What both kinds of clients are made of."""

    def __init__(
        self,
        url: str | None,
        key: str | None,
        *,
        name: str | None,
        timeout: float | None,
        concurrency: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        seconds = seconds_of(timeout)
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
            raise ValueError(f"concurrency is a whole number of at least 1, not {concurrency!r}")
        address = address_of(url, key)
        self.shown = address.shown
        self.clock = clock
        self.connections = concurrency
        attempts = Attempts(shown=address.shown, clock=clock, draw=random.random)
        self.api = Api(attempts, seconds=seconds)
        self.artifact_api = ArtifactApi(attempts, seconds=seconds)
        self.http: dict[str, Any] = {
            "base_url": address.url,
            "headers": base_headers(address, name),
            "limits": httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
        }
