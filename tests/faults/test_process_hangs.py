"""A process that stops, but does not end: what it had is held, and nobody waits for it who need not."""

import time

import pytest

from tests.faults.conftest import Site, Trial

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
