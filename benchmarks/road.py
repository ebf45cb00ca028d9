"""Where the processor's time of a request goes, in one process and without Ray: `python -m benchmarks.road`.

The gateway's HTTP application is called as a server would call it, with a real PostgreSQL behind it. The model's host
answers from what it said before, packed and unpacked as on its way between processes, so that what is counted is the
gateway's own. Beside it: the host's work on the same batches, and PostgreSQL's. Processor time, medians of rounds; what
else the machine does moves it less than it moves the clock, but it does move it.
"""

import argparse
import asyncio
import cProfile
import pickle
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from rich.console import Console
from rich.table import Table
from uuid_utils.compat import uuid7

from benchmarks.processor_time import spent_by_server, spent_since
from demur.calibration_store.store import ArtifactStore
from demur.serve.access import needs
from demur.serve.config.file import Config
from demur.serve.configuration import load_config
from demur.serve.contract import wire
from demur.serve.contract.commit import BatchWriting, CommitResult
from demur.serve.contract.decided import ArtifactShare
from demur.serve.contract.hosts import HostState
from demur.serve.contract.inputs import InputLimits
from demur.serve.contract.reading.inputs import read_inputs
from demur.serve.contract.rows import ModelRow, PendingRow
from demur.serve.contract.wire import PredictRequest
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.serve.deployments.guarded import guarded, received
from demur.serve.fitting.fit import fit_model
from demur.serve.gateway import journal
from demur.serve.gateway.finish import FinishedBatch
from demur.serve.gateway.handler import Handler
from demur.serve.gateway.intake import Intake
from demur.serve.gateway.reading import read_batch
from demur.serve.gateway.request_limit import RequestLimit
from demur.serve.hosts.garbage import look_rarely
from demur.serve.hosts.host import Host
from demur.serve.web.native.admission import Admission
from demur.serve.web.native.app import gateway_app
from demur.serve.web.native.fast_path import FastPath
from demur.traffic import copying

torch.set_num_threads(1)
ROOT = Path(__file__).parents[1]
out = Console()


class Remembered:
    """A host that says what it said before of a batch of so many rows."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._said: dict[int, bytes] = {}
        self.asked: list[tuple[Any, Any, Any]] = []

    async def state(self) -> HostState:
        return self._host.state()

    async def decide(self, inputs: Any, groups: Any, draws: Any) -> list[ArtifactShare]:
        n = len(inputs)
        if n not in self._said:
            self.asked.append((inputs, groups, draws))
            self._said[n] = pickle.dumps(await self._host.decide(inputs, groups, draws), protocol=5)
        found: list[ArtifactShare] = pickle.loads(self._said[n])  # noqa: S301 - written above
        return found


def configured(folder: Path, rows: Path) -> Config:
    config = load_config(ROOT / "tests/quickstart.yaml")
    model = config.models["digits"]
    host = model.host.model_copy(update={"checkpoint": str(ROOT / "deploy/models/digits")})
    policy = {"kind": "threshold", "limit": 0.0}
    told = model.model_dump(mode="json")
    told["host"], told["policy"] = host.model_dump(mode="json"), policy
    told["calibration"]["data"] = str(rows)
    return Config.model_validate({"data": str(folder), "models": {"digits": told}})


def application(config: Config, handler: Handler) -> Any:
    """What the gateway's deployment puts before its handler."""
    limits = config.limits
    app = gateway_app(handler, max_body_bytes=limits.body_bytes)
    door = FastPath(handler, max_body_bytes=limits.body_bytes).before(app)
    room = RequestLimit(most=limits.open_requests, share=limits.share_per_key)
    inside = Admission(door, room, Intake(limits))
    return received(guarded(inside, config, None, needs.GATEWAY, has_pages=True), config, handler.telemetry)


async def asked(app: Any, path: str, body: bytes, *, keyed: bool = False) -> int:
    """One request, as a server of ASGI makes it; return the status."""
    status = 0
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await asyncio.sleep(3600)
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)),
                    *([(b"idempotency-key", str(uuid7()).encode())] if keyed else [])],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "scheme": "http", "http_version": "1.1", "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
    return status


def least(work: Callable[[], Any], rows: int, times: int = 60) -> float:
    """Microseconds of this thread's processor time for each row: the least of five rounds."""
    rounds = []
    for _ in range(5):
        began = time.thread_time()
        for _ in range(times):
            work()
        rounds.append((time.thread_time() - began) / times / rows * 1e6)
    return min(rounds)


async def tell_stages(handler: Handler, host: Host, body: bytes) -> None:
    """What each stage of a batch takes, done by itself, again and again."""
    requests, _ = read_batch(body, None, None, most=1024)
    n, database = len(requests), handler.database
    spec, limits = host.spec, InputLimits(text_characters=10**6, image_pixels=10**6)
    values = [request.input for request in requests if isinstance(request, PredictRequest)]
    pixels = read_inputs(values, spec, limits)
    (share,) = await host.decide(np.stack(pixels), [None] * n, None)  # type: ignore[arg-type]
    packed = pickle.dumps(share, protocol=5)
    pending = [
        PendingRow(uuid7(), request, value, 0.0)  # type: ignore[arg-type]
        for request, value in zip(requests, pixels, strict=True)
    ]
    rows = [ModelRow(share, i, "", 0.1) for i in range(n)]

    def finish() -> FinishedBatch:
        with handler._finisher.room.places() as places:
            return handler._finisher.finish(pending, rows, places, datetime.now(UTC))

    (batch,) = finish().items
    assert isinstance(batch, BatchWriting)
    columns = batch.columns
    done = [CommitResult(columns=columns, row=row) for row in range(n)]

    def committed() -> None:
        columns.ids[:] = [uuid7() for _ in range(n)]
        journal.commit(database, [batch])

    stages = {
        "read the body": lambda: read_batch(body, None, None, most=1024),
        "numbers to one array": lambda: read_inputs(values, spec, limits),
        "ids": lambda: [uuid7() for _ in range(n)],
        "what the host said, unpacked": lambda: pickle.loads(packed),  # noqa: S301 - written above
        "finish": finish,
        "answers as JSON": lambda: wire.dump([wire.answer_json(one) for one in done]),
        "the writing thread: rows for COPY": lambda: [
            copying.rows(n, packer(columns)) for packer in (copying.record_columns, copying.payload_columns)
        ],
        "the writing thread: all of a commit, and ids": committed,
    }
    table = Table("stage", "µs/row", title=f"a batch of {n}, each stage by itself")
    for name, work in stages.items():
        table.add_row(name, f"{least(work, n):.1f}")
    out.print(table)


async def measured(options: argparse.Namespace, folder: Path) -> None:
    script = ROOT / "deploy/models/digits/parts.py"
    subprocess.run([sys.executable, script, folder], check=True, capture_output=True)  # noqa: S603 - our own
    rows = folder / "calibration.jsonl"
    images = [orjson.loads(line)["input"] for line in (folder / "test.jsonl").read_bytes().splitlines()]
    config = configured(folder, rows)
    done = fit_model(config, "digits", rows, clock=lambda: datetime.now(UTC), progress=lambda *_: None)
    store = ArtifactStore(config.artifacts)
    store.promote("digits", done.name, by="a benchmark", why="", clock=lambda: datetime.now(UTC))
    with EmbeddedPostgres(folder) as server:
        database = open_database(server.dsn)
        host = await Host.started("digits", config.models["digits"], store)
        remembered = Remembered(host)
        handler = Handler(
            config, {"digits": remembered}, database,  # type: ignore[dict-item]  # it streams nothing
            clock=lambda: datetime.now(UTC), new_id=uuid7, draw_key="a key",
        )  # fmt: skip
        app = application(config, handler)
        items = [{"model": "digits", "input": image} for image in images[: options.batch]]
        batch, single = orjson.dumps({"items": items}), orjson.dumps(items[0])
        assert await asked(app, "/v1/predict/batch", batch) == 200
        if options.stages:
            await tell_stages(handler, host, batch)
        table = Table("what", "rows", "gateway µs/row", "PostgreSQL µs/row", "host µs/row")
        for what, n in (("a batch", 1), (f"{options.callers} single requests at a time", options.callers)):
            if options.profile and n != 1 and not options.profile_single:
                continue
            ours, theirs, hosts = [], [], []
            profile = cProfile.Profile() if options.profile else None
            for number in range(options.rounds + 1):
                before, cpu = spent_by_server(folder), time.process_time()
                if profile and number == 1:
                    profile.enable()
                for _ in range(options.times):
                    if n == 1:
                        assert await asked(app, "/v1/predict/batch", batch, keyed=options.keys) == 200
                    else:
                        singly = (asked(app, "/v1/predict", single, keyed=options.keys) for _ in range(n))
                        await asyncio.gather(*singly)
                if profile and number == options.rounds:
                    profile.disable()
                count = options.times * (options.batch if n == 1 else n)
                if number:
                    ours.append((time.process_time() - cpu) / count * 1e6)
                    theirs.append(spent_since(before) / count * 1e6)
                    asked_of_host = max(remembered.asked, key=lambda one: len(one[0]))
                    at = time.process_time()
                    for _ in range(options.times // 4):
                        await host.decide(*asked_of_host)
                    hosts.append((time.process_time() - at) / (options.times // 4 * len(asked_of_host[0])) * 1e6)
            middle = statistics.median
            table.add_row(
                what, str(options.batch), f"{middle(ours):.1f}", f"{middle(theirs):.1f}", f"{middle(hosts):.1f}"
            )
            if profile:
                pstats.Stats(profile).sort_stats("tottime").print_stats(options.lines)
        out.print(table)
        await handler.close()
        database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--times", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", action="store_true", help="each request has an Idempotency-Key of its own")
    parser.add_argument("--profile", action="store_true", help="show where the time goes in Python")
    parser.add_argument("--profile-single", action="store_true")
    parser.add_argument("--stages", action="store_true", help="show what each stage of a batch takes by itself")
    parser.add_argument("--lines", type=int, default=45)
    options = parser.parse_args()
    look_rarely()  # as gateways and hosts do
    with tempfile.TemporaryDirectory(prefix="demur-bench-") as folder:
        asyncio.run(measured(options, Path(folder)))


if __name__ == "__main__":
    main()
