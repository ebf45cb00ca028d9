"""A service that says what a test tells it to, and time that passes only where somebody waits for it."""

import asyncio
import inspect
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import httpx

from demur.client.async_client import AsyncClient
from demur.client.sync_client import Client

URL = "http://demur.test"
ID = "01939f2e-5b7a-7cc3-98c4-dc0c0c07398f"

PREDICTION = {
    "id": ID,
    "model": "m",
    "action": "answer",
    "abstained": False,
    "prediction": "7",
    "prediction_set": ["7"],
    "confidence": 0.9,
    "label_confidence": None,
    "scores": {"entropy": 0.1, "margin": None},
    "reason": "because",
    "artifact": "m-1",
    "group": None,
    "steps": None,
    "cost": None,
    "review": None,
}
HELD = {**PREDICTION, "action": "review", "abstained": True, "review": {"status": "waiting", "url": "/v1/x"}}
OUTCOME = {"label": "7", "source": "api", "author": None, "at": "2026-11-21T08:00:00+00:00"}
VIEW = {
    **PREDICTION,
    "at": "2026-11-21T08:00:00+00:00",
    "erased_at": None,
    "outcome": None,
    "outcomes": [],
    "counts_by": "the latest",
}


def reply(body: Any = None, status: int = 200, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.Response(status, content=content, headers={key.replace("_", "-"): one for key, one in headers.items()})


def problem(kind: str, message: str, status: int, **headers: str) -> httpx.Response:
    return reply({"error": {"kind": kind, "message": message}}, status, **headers)


class Time:
    """A clock that stands still but for pauses, which are noted."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.pauses.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


class Service:
    """Answers each request with the next of its replies; the last one is repeated. A function is asked, an exception
    raised."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        told = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(told, Exception):
            raise told
        if callable(told):
            return told(request)
        return httpx.Response(told.status_code, content=told.content, headers=told.headers)


class Awaited:
    """An `AsyncClient` whose methods come back when they are done, as those of a `Client`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def __repr__(self) -> str:
        return repr(self._client)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **more: Any) -> Any:
            async def work() -> Any:
                done = method(*args, **more)
                if inspect.isasyncgen(done):
                    async with aclosing(done) as answers:
                        return [one async for one in answers]
                return await done

            return asyncio.run(work())

        return call


def client_of(kind: str, service: Callable[[httpx.Request], httpx.Response], time: Time, **more: Any) -> Any:
    """A client of either kind, with a service and a time that tests make."""
    told = {"url": URL, "transport": httpx.MockTransport(service), "clock": time.clock, **more}
    if kind == "sync":
        return Client(**told, sleep=time.sleep)
    return Awaited(AsyncClient(**told, sleep=time.sleep_async))
