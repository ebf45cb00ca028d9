"""What telling of itself costs the service: microseconds for each request, in one thread and nothing else."""

import asyncio
import logging
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from demur.serve.telemetry.logs import JsonLines
from demur.serve.telemetry.request_middleware import RequestMiddleware
from demur.serve.telemetry.telemetry import Telemetry

REQUESTS = 64_000
HEADERS = [
    (name.encode(), b"something of some length")
    for name in ("host", "accept", "accept-encoding", "connection", "user-agent", "content-length", "content-type")
]


def per_request(work: Callable[[], object], times: int, size: int = 1) -> float:
    """Microseconds of processor time, the best of five: what else runs on the machine shall not count."""
    spent = []
    for _ in range(5):
        began = time.thread_time()
        for _ in range(times):
            work()
        spent.append(time.thread_time() - began)
    return min(spent) / (times * size) * 1e6


def counting(size: int) -> float:
    """Batches of `size` through both points at which predictions are counted."""
    telemetry = Telemetry()
    record = SimpleNamespace(model="digits", action="answer", confidence=0.97)
    writings: Any = [SimpleNamespace(entry=SimpleNamespace(record=record), case=None)] * size
    results: Any = [SimpleNamespace(replayed=False)] * size
    shares: Any = [SimpleNamespace(rows=range(size), decided=SimpleNamespace(model_milliseconds=2.0))]
    waits = [0.4] * size

    def batch() -> None:
        telemetry.asked("digits", waits, 0.003, shares)
        telemetry.committed(writings, results, 0.004)

    return per_request(batch, REQUESTS // size, size)


async def bare(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})


async def nothing(*_: Any) -> Any:
    return None


def through(app: Any) -> float:
    headers = [*HEADERS, (b"x-request-id", b"fcd5c4f9-e286-440b-b085-75cfa67d5cd6")]

    async def ask() -> None:
        for _ in range(REQUESTS):
            scope = {"type": "http", "method": "POST", "path": "/v1/predict", "headers": headers}
            await app(scope, nothing, nothing)

    return per_request(lambda: asyncio.run(ask()), 1, REQUESTS)


def main() -> None:
    access = logging.getLogger("demur.access")
    lines = logging.StreamHandler(open("/dev/null", "w"))  # noqa: SIM115 - as long as the program runs
    lines.setFormatter(JsonLines())
    access.addHandler(lines)
    access.setLevel(logging.INFO)
    access.propagate = False
    plain = through(bare)
    told = through(RequestMiddleware(bare, Telemetry(), echo=False)) - plain
    logged = through(RequestMiddleware(bare, Telemetry(), echo=False, access_log=True)) - plain
    print(f"counting a prediction, alone in its batch      {counting(1):5.1f} us")
    print(f"counting a prediction, one of 64 in its batch  {counting(64):5.1f} us")
    print(f"id, time and status of a request               {told:5.1f} us")
    print(f"the same with a line of JSON in the log        {logged:5.1f} us")


if __name__ == "__main__":
    main()
