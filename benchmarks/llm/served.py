"""How fast demur in front of vLLM answers: `python -m benchmarks.llm.served`, in the environment that has vLLM.

`demur up` with vLLM in its host, and `vllm serve` with the same settings, stand beside each other and are asked the
same conversations in turns, through /v1/chat/completions: once for texts alone, and once where the engine of either
tells the log-probabilities of what it writes. demur judges each reply and commits it to its database; vLLM sends the
log-probabilities to its client. The client runs on the same machine and takes its share of it.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks.llm.subjects import CHECKPOINT, ENGINE, GENERATE, MAX_TOKENS, configured, exercises, markdown
from benchmarks.load import measure

PATH = "/v1/chat/completions"
CONCURRENCIES = (1, 16, 64)
START_SECONDS = 600

ASKED: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "think, texts alone": ("think", ("trace_tokens",), {}),
    "think, log-probabilities": ("think", ("trace_tokens", "g_nll"), {"logprobs": True}),
    "total, log-probabilities": ("total", ("g_nll",), {"logprobs": True}),
}
"""The exercise, the scores that demur reads, and what vLLM is asked for beside texts."""

ON_A_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
"""As demur sets them for its own engine."""


@contextmanager
def running(command: list[str], folder: Path, url: str, asked: bytes) -> Iterator[str]:
    """A server that answers what is asked already, and is stopped with all that it started."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - a command of our own
            command,
            cwd=folder,
            env={**os.environ, **ON_A_CPU},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, url + PATH, asked, folder / "log")
        yield url
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], url: str, asked: bytes, log: Path) -> None:
    request = urllib.request.Request(url, asked, {"content-type": "application/json"})  # noqa: S310 - of this machine
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(request, timeout=60):  # noqa: S310 - as above
                return
        except OSError:  # also where it refuses, as demur does until it has fitted an artifact
            time.sleep(1)
    raise SystemExit(f"a server did not start; the end of its log:\n{log.read_text(errors='replace')[-3000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def bare() -> list[str]:
    """The command that serves the model without demur, with the port last."""
    engine = [word for name, value in ENGINE.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    quiet = ["--disable-log-stats", "--disable-uvicorn-access-log"]
    serve = ["vllm.entrypoints.openai.api_server", "--model", str(CHECKPOINT), "--served-model-name", "sums"]
    return [
        *(sys.executable, "-m", *serve, "--dtype", "float32", "--enforce-eager", *engine, *quiet),
        *("--host", "127.0.0.1", "--port"),
    ]


def demur(folder: Path, port: int, task: str, scores: tuple[str, ...]) -> list[str]:
    """The command that serves it with demur, whose configuration is written into the folder."""
    rows = exercises(task)
    lines = [{"input": i, "label": label} for i, label in zip(rows.inputs, rows.labels, strict=True)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    model = configured(*scores, task=GENERATE, calibration={"data": "rows.jsonl"})
    config = {"http": {"host": "127.0.0.1", "port": port}, "models": {"sums": model}}
    (folder / "demur.yaml").write_text(yaml.safe_dump(config))
    return [sys.executable, "-P", "-m", "demur", "up"]


async def compare(ways: dict[str, tuple[str, list[bytes]]], rounds: int, seconds: float, title: str) -> list[list[str]]:
    lines = []
    for concurrency in CONCURRENCIES:
        rates: dict[str, list[float]] = {name: [] for name in ways}
        latencies: dict[str, list[float]] = {name: [] for name in ways}
        for url, bodies in ways.values():
            await measure(url, PATH, bodies, concurrency, 1.0)
        for number in range(rounds):
            for name in list(ways)[:: 1 if number % 2 else -1]:
                rate, times = await measure(ways[name][0], PATH, ways[name][1], concurrency, seconds)
                rates[name].append(rate)
                latencies[name] += times
        ratio = statistics.median(ours / theirs for ours, theirs in zip(rates["demur"], rates["vllm"], strict=True))
        line = [title, str(concurrency)]
        for name in ("vllm", "demur"):
            cuts = statistics.quantiles(latencies[name], n=100)
            line += [f"{statistics.median(rates[name]):,.1f}", f"{cuts[49]:,.0f} / {cuts[94]:,.0f}"]
        lines.append([*line, f"{ratio:.2f}", f"{min(rates['demur']):,.0f} to {max(rates['demur']):,.0f}"])
        print(" | ".join(lines[-1]), flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each turn")
    parser.add_argument("--only", nargs="*", choices=ASKED, default=list(ASKED))
    options = parser.parse_args()
    lines: list[list[str]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="demur-")))
        for name in ("vllm", *map(str, range(len(ASKED)))):
            (folder / name).mkdir()
        port = _free_port()
        vllm = stack.enter_context(
            running([*bare(), str(port)], folder / "vllm", f"http://127.0.0.1:{port}", _body("What is 4 + 3?"))
        )
        for place, title in enumerate(options.only):
            task, scores, more = ASKED[title]
            values = exercises(task).inputs
            limits = {"max_tokens": MAX_TOKENS, "temperature": 0, **more}
            port, place_of = _free_port(), folder / str(place)
            command = demur(place_of, port, task, scores)
            with running(command, place_of, f"http://127.0.0.1:{port}", _body(values[0])) as ours:
                ways = {
                    "vllm": (vllm, [_body(value, **limits) for value in values]),
                    "demur": (ours, [_body(value) for value in values]),
                }
                lines += asyncio.run(compare(ways, options.rounds, options.seconds, title))
    columns = ["asked", "at a time", "`vllm serve`, requests/s", "p50 / p95 ms", "demur, requests/s", "p50 / p95 ms"]
    print(f"\n{markdown([*columns, 'ratio', 'demur, all turns'], lines)}")


def _body(value: Any, **more: Any) -> bytes:
    messages = value["messages"] if isinstance(value, dict) else [{"role": "user", "content": value}]
    return json.dumps({"model": "sums", "messages": messages, **more}).encode()


if __name__ == "__main__":
    main()
