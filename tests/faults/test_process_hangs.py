"""A process that stops, but does not end: what it had is held, and nobody waits for it who need not."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.faults.conftest import LARGE, Site, Trial

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_a_host_hangs(site: Site, trial: Trial):
    hung = []

    def fault(load):
        hung.append(site.replicas("host-digits")[0])
        hung[0].suspend()
        time.sleep(14.0)  # a host has ten seconds for a batch

    load, _ = trial(site, fault)
    reasons = [told.said["reason"] for told in load.answered]
    assert any("the model gave no answer within 10 s" in reason for reason in reasons)
    assert not load.troubles
    hung[0].kill()
    site.wait_until_whole()


def test_a_gateway_hangs(site: Site, trial: Trial):
    hung = []

    def fault(load):
        hung.append(site.replicas("Gateway")[0])
        hung[0].suspend()
        time.sleep(14.0)
        hung[0].resume()

    trial(site, fault, timeout_seconds=10.0)
    site.wait_until_whole()


@pytest.mark.skipif(not LARGE, reason="takes a minute and a half: make bench-faults")
def test_the_proxy_hangs_while_the_service_starts(digits: Path):
    """Serve takes a minute to see it and replace the proxy; until then the service is not ready, and goes on."""
    starts = Site(digits, gateways=1, hosts=1)
    proxies: list[psutil.Process] = []

    def found() -> bool:
        with suppress(AttributeError, OSError, ValueError, psutil.Error):  # the service is only just being started
            proxies.extend(starts.titled("ray::HAProxyManager"))
        return bool(proxies)

    try:
        began = time.monotonic()
        with ThreadPoolExecutor(max_workers=1) as beside:
            starting = beside.submit(starts.start, patience=240)
            starts.wait_until(found)
            proxies[0].suspend()
            starting.result()
        print(f"ready after {time.monotonic() - began:.0f} s")
        assert [process.pid for process in starts.titled("ray::HAProxyManager")] not in ([], [proxies[0].pid])
    finally:
        starts.remove()
