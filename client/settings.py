"""How a client is set up, whether it waits in threads or with `await`."""

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


class Settings:
    """What both kinds of clients are made of."""

    def __init__(
        self,
        url: str | None,
        key: str | None,
        *,
        name: str | None,
        timeout: float,
        concurrency: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not timeout > 0:
            raise ValueError("timeout is a number of seconds above 0")
        if concurrency < 1:
            raise ValueError("concurrency is at least 1")
        address = address_of(url, key)
        self.shown = address.shown
        self.clock = clock
        self.connections = concurrency
        attempts = Attempts(shown=address.shown, clock=clock, draw=random.random)
        self.api = Api(attempts, seconds=timeout)
        self.artifact_api = ArtifactApi(attempts, seconds=timeout)
        self.http: dict[str, Any] = {
            "base_url": address.url,
            "headers": base_headers(address, name),
            "limits": httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
        }
