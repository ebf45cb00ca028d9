"""Memory of every process of a small service, and the time from `demur up` to its first answer.

    python -m benchmarks.weight [--config deploy/quickstart.yaml] [--starts 3]

The service runs in a folder of its own, on a free port of the loopback, and is stopped in the end. Its models are
fitted by a start that is not timed. PSS is memory in which a page that several processes share is counted once, in
equal parts; USS is what only one process has. The last column names the large libraries that a process has loaded.
"""

import argparse
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx
import psutil
import yaml

ROOT = Path(__file__).resolve().parents[1]

READY = "stop with Ctrl-C"
"""The last line that `demur up` says when it serves."""

PATIENCE_SECONDS = 240.0
STOP_SECONDS = 60.0
LOOK_SECONDS = 0.02

LARGE = ("torch", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "grpc")
"""Libraries that are worth a look, by the folder of their compiled parts."""

DIGIT = [[0.0] * 8] * 8
"""One input of the quickstart's `digits`."""


@dataclass(frozen=True)
class Weighed:
    """One process."""

    role: str
    pss: float
    """In MB of a million bytes, as `uss`."""

    uss: float
    threads: int
    libraries: tuple[str, ...]


@dataclass
class Start:
    """One start of the service, as it went; seconds are counted from the start of the process."""

    lines: list[tuple[float, str]] = field(default_factory=list)
    """What `demur up` said."""

    first_answer: float = 0.0
    ready: float = 0.0
    processes: list[Weighed] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", type=Path, default=ROOT / "deploy/quickstart.yaml")
    parser.add_argument("--model", default="digits", help="who is asked; it takes 8 x 8 numbers")
    parser.add_argument("--starts", type=int, default=3, help="how many starts are timed")
    parser.add_argument("--settle", type=float, default=8.0, help="seconds between the start and the look at memory")
    parser.add_argument("--folder", type=Path, help="where it runs, and what it fits is found the next time")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weight-") as made:
        folder = (asked.folder or Path(made)).resolve()
        port = _prepare(folder, asked.config)
        with _started(folder, port, asked.model):
            pass  # fits the models, and brings all files into the cache
        starts = []
        for _ in range(asked.starts):
            with _started(folder, port, asked.model) as start:
                time.sleep(asked.settle)
                start.processes = weighed(processes_of(folder))
            starts.append(start)
            print(f"first answer after {start.first_answer:.1f} s, ready after {start.ready:.1f} s", flush=True)
    _show(starts)


def _show(starts: list[Start]) -> None:
    last = starts[-1]
    print("\nThe last start, in seconds:")
    for seconds, line in last.lines:
        print(f"{seconds:8.2f}  {line}")
    first = statistics.median(start.first_answer for start in starts)
    ready = statistics.median(start.ready for start in starts)
    print(f"\nMedian of {len(starts)} starts: first answer after {first:.1f} s, ready after {ready:.1f} s.\n")
    rows = [
        (one.role, f"{one.pss:.0f}", f"{one.uss:.0f}", str(one.threads), " ".join(one.libraries))
        for one in sorted(last.processes, key=lambda one: -one.pss)
    ]
    total = (
        f"{len(rows)} processes",
        f"{sum(one.pss for one in last.processes):.0f}",
        f"{sum(one.uss for one in last.processes):.0f}",
        str(sum(one.threads for one in last.processes)),
        "",
    )
    print("| process | PSS, MB | USS, MB | threads | large libraries |\n|---|---|---|---|---|")
    for row in (*rows, total):
        print(f"| {' | '.join(row)} |")


def _prepare(folder: Path, config: Path) -> int:
    """Make what `make run` makes, in a folder of its own; return the port of the service."""
    folder.mkdir(exist_ok=True)
    if not (folder / "deploy").exists():
        (folder / "deploy").symlink_to(ROOT / "deploy")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in (["deploy/models/digits/parts.py", "var/digits"], ["-m", "deploy.models.sums.parts", "var/sums"]):
        command = [sys.executable, *words]
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    content = yaml.safe_load(config.read_text())
    content["http"] = {**content.get("http", {}), "host": "127.0.0.1", "port": port}
    (folder / "demur.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return port


@contextmanager
def _started(folder: Path, port: int, model: str) -> Iterator[Start]:
    """Start the service, wait for its first answer and until it says that it is ready; stop it in the end."""
    began, start = time.monotonic(), Start()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "demur", "up", "demur.yaml"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    (folder / "pid").write_text(str(process.pid))
    assert process.stdout
    reading = threading.Thread(target=_read, args=(process.stdout, began, start), daemon=True)
    reading.start()
    try:
        url, body = f"http://127.0.0.1:{port}/v1/predict", {"model": model, "input": DIGIT}
        while not start.first_answer or not start.ready:
            if process.poll() is not None or time.monotonic() - began > PATIENCE_SECONDS:
                raise SystemExit("the service did not start:\n" + "\n".join(line for _, line in start.lines))
            if not start.first_answer:
                with suppress(httpx.TransportError):
                    if httpx.post(url, json=body, timeout=30).status_code == 200:
                        start.first_answer = time.monotonic() - began
            time.sleep(LOOK_SECONDS)
        yield start
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        if process.poll() is None:
            process.kill()  # its reaper ends what it started
            process.wait()
        reading.join(STOP_SECONDS)


def _read(lines: IO[str], began: float, start: Start) -> None:
    for line in lines:
        seconds = time.monotonic() - began
        start.lines.append((seconds, line.rstrip()))
        if READY in line:
            start.ready = seconds


def processes_of(folder: Path) -> list[psutil.Process]:
    """The service of a folder and all that it started, the database included."""
    roots = [psutil.Process(int((folder / "pid").read_text()))]
    with suppress(OSError):
        roots.append(psutil.Process(int((folder / "var/postgres/postmaster.pid").read_text().split("\n")[0])))
    return [process for root in roots for process in (root, *root.children(recursive=True))]


def weighed(processes: list[psutil.Process]) -> list[Weighed]:
    """What each process takes; those that end meanwhile are left out."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            found.append(_weighed(process))
    return found


def _weighed(process: psutil.Process) -> Weighed:
    sums = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    kilobytes = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", sums, re.MULTILINE)}
    alone = kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]
    return Weighed(
        role=role_of(process),
        pss=kilobytes["Pss"] * 1024 / 1e6,
        uss=alone * 1024 / 1e6,
        threads=process.num_threads(),
        libraries=libraries_of(process.pid),
    )


def libraries_of(pid: int) -> tuple[str, ...]:
    """Large libraries of which a process has mapped a compiled part."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    return tuple(name for name in LARGE if re.search(rf"/site-packages/{name}/.*\.so", maps))


def role_of(process: psutil.Process) -> str:
    """What a process is for, in a word or two."""
    words = process.cmdline() or [process.name()]
    line = " ".join(words)
    if line.startswith("ray::"):
        return line.split()[0]
    if process.name().startswith("postgres"):
        return "postgres"
    if " demur up" in line:
        return "demur up"
    for path in (*words[1:5], words[0]):
        if path.endswith(".py"):
            return "/".join(Path(path).parts[-2:])
    return Path(words[0]).name


if __name__ == "__main__":
    main()
