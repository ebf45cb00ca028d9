"""One service of two gateways and three hosts, at which every fault of the suite is made in turn."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.conftest import digit_rows
from tests.faults.load import Account, Load, account_of, longest_silence, recovery_seconds
from tests.system.conftest import Service, free_port
from tests.system.conftest import own as own

LARGE = bool(os.environ.get("FAULTS_LARGE"))
"""Whether the figures of docs/reliability.md are wanted: more callers, for longer."""

CALLERS = 16 if LARGE else 8
BEFORE_SECONDS = 6.0 if LARGE else 1.5
AFTER_SECONDS = 12.0 if LARGE else 3.0
RECOVERY_SECONDS = 60.0
"""So long it is waited until answers flow as before; on a busy machine they may not."""

GATEWAYS, HOSTS = 2, 3

OPEN_REQUESTS = 40
"""That one gateway takes at a time."""


class Site(Service):
    """A service whose processes can be told apart."""

    def __init__(self, digits: Path, *, gateways: int = GATEWAYS, hosts: int = HOSTS) -> None:
        super().__init__(digits)
        self.inputs = [row["input"] for row in digit_rows(digits)]
        self.inputs[1::2] = [[line[::-1] for line in value] for value in self.inputs[1::2]]  # mirrored: often held
        content = yaml.safe_load((self.folder / "demur.yaml").read_text())
        content["gateway"] = {"replicas": gateways}
        content["limits"] = {"open_requests": OPEN_REQUESTS}
        content["telemetry"] = {"metrics_port": free_port()}
        content["models"]["digits"]["host"]["replicas"] = hosts
        self.content = content
        self.write()

    def write(self) -> None:
        """Bring the file of the configuration up to date."""
        (self.folder / "demur.yaml").write_text(yaml.safe_dump(self.content))

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder / 'var/postgres'}"

    def replicas(self, deployment: str) -> list[psutil.Process]:
        """The processes of a deployment's replicas, such as `Gateway` or `host-digits`."""
        return self.titled(f"ray::ServeReplica:demur:{deployment}")

    def titled(self, title: str) -> list[psutil.Process]:
        """The processes with such a title."""
        return [process for process in self.processes() if _title(process).startswith(title)]

    def wait_until(self, true: Callable[[], object], *, patience: float = 90.0) -> None:
        deadline = time.monotonic() + patience
        while not true():
            assert time.monotonic() < deadline, self.said()[-3000:]
            time.sleep(0.1)

    def wait_until_whole(self) -> None:
        """Come back when all replicas are there again."""
        self.wait_until(
            lambda: len(self.replicas("Gateway")) == GATEWAYS and len(self.replicas("host-digits")) == HOSTS
        )


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.fixture(scope="session")
def site(digits: Path) -> Iterator[Site]:
    running = Site(digits)
    try:
        running.start(patience=240)
        yield running
    finally:
        if os.environ.get("FAULTS_KEEP_LOG"):
            shutil.copy(running.log, os.environ["FAULTS_KEEP_LOG"])
        running.remove()


class Trial:
    """A fault under load."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(
        self,
        site: Site,
        fault: Callable[[Load], Any],
        *,
        callers: int = CALLERS,
        after_seconds: float = AFTER_SECONDS,
        **options: Any,
    ) -> tuple[Load, Account]:
        """Make the fault while callers ask, wait until answers flow as before, and compare all with the log."""
        load = Load(site.url, site.inputs, callers=callers, **options)
        with load:
            load.wait_for(50)
            time.sleep(BEFORE_SECONDS)
            began = time.monotonic()
            fault(load)
            ended = time.monotonic()
            load.wait_for(50)
            time.sleep(after_seconds)
            while recovery_seconds(load, began) == float("inf") and time.monotonic() < ended + RECOVERY_SECONDS:
                time.sleep(1.0)
        account = account_of(site.dsn, load)
        self._write(load, account, began, ended)
        assert account.clean, account
        assert account.held > 10  # else nothing was shown of the queue
        return load, account

    def _write(self, load: Load, account: Account, began: float, ended: float) -> None:
        row = {
            "fault": self.name,
            "callers": len(load._threads),
            "seconds": round(load.told[-1].at - load.told[0].at, 1),
            "fault_seconds": round(ended - began, 1),
            "acknowledged": account.acknowledged,
            "held": account.held,
            "lost": len(account.lost) + len(account.altered) + len(account.unqueued),
            "doubled": len(account.doubled),
            "unanswered": account.unanswered,
            "troubles": dict(load.troubles),
            "slowest": round(max(told.seconds for told in load.answered), 2),
            "silence": round(longest_silence(load, began), 2),
            "recovery": round(recovery_seconds(load, began), 1),
        }
        print(json.dumps(row))
        if not account.clean:
            print(account)
        if path := os.environ.get("FAULTS_TABLE"):
            with Path(path).open("a") as table:
                table.write(json.dumps(row) + "\n")


@pytest.fixture
def trial(request: pytest.FixtureRequest) -> Trial:
    return Trial(request.node.name.removeprefix("test_").replace("_", " "))


def kill(process: psutil.Process) -> None:
    process.send_signal(signal.SIGKILL)
