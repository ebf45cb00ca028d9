"""A stop that was asked for drains, commits, and ends well; one that was not loses nothing either."""

import os
import signal
import time

import psutil
import pytest

from tests.faults.conftest import Site, Trial
from tests.faults.load import Load, account_of
from tests.system.conftest import alive

pytestmark = [pytest.mark.faults, pytest.mark.slow]

STOPPED = {"connection refused", "connection broken", "503 NoGateway", "502 GatewayLost", "503 Overloaded",
           "503 ModelNotReady", "nothing for 30 s"}  # fmt: skip
"""What callers may meet when the service is about to stop, or has stopped. Of what was accepted nothing is lost."""


@pytest.fixture(scope="module")
def small(digits):
    """A service of one gateway and one host, to be stopped and started."""
    running = Site(digits, gateways=1, hosts=1)
    try:
        running.start(patience=240)
        yield running
    finally:
        running.remove()


def test_sigterm(small: Site, trial: Trial):
    before = small.processes()
    took = []

    def fault(load):
        began = time.monotonic()
        os.kill(small.process.pid, signal.SIGTERM)
        assert small.process.wait(timeout=60) == 0
        took.append(time.monotonic() - began)
        assert alive(before) == []
        small.start(patience=240)

    load, _ = trial(small, fault)
    print(f"stopped after {took[0]:.1f} s")
    said = small.said()
    assert "not stopped cleanly" not in said
    assert "fitting" not in said
    assert set(load.troubles) <= STOPPED
    assert not [told for told in load.answered if "failed" in told.said["reason"]]  # hosts stay until gateways are done


def test_everything_is_killed(small: Site, trial: Trial):
    def fault(load):
        small.kill_everything()
        small.start(patience=240)
        assert "was not stopped cleanly" in small.said()

    trial(small, fault)


def test_ctrl_c(small: Site):
    with Load(small.url, small.inputs) as load:
        load.wait_for(100)
        before = small.processes()
        os.killpg(small.process.pid, signal.SIGINT)
        assert small.process.wait(timeout=60) == 0
    assert alive(before) == []
    assert "stopped" in small.said()
    assert "Traceback" not in small.said()
    small.start(patience=240)
    account = account_of(small.dsn, load)
    assert account.clean, account
    assert set(load.troubles) <= STOPPED
    assert psutil.pid_exists(small.database_pid())
