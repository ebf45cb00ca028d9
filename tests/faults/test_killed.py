"""SIGKILL of whatever a service is made of: nothing that was acknowledged is lost, and answers flow again."""

import os
import signal

import pytest

from tests.faults.conftest import Site, Trial, kill

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def test_a_gateway_is_killed(site: Site, trial: Trial):
    def fault(load):
        kill(site.replicas("Gateway")[0])

    trial(site, fault)
    site.wait_until_whole()


def test_a_host_is_killed(site: Site, trial: Trial):
    def fault(load):
        kill(site.replicas("host-digits")[0])

    load, _ = trial(site, fault)
    assert not load.troubles  # a batch that a dead host had is asked of another, or held
    site.wait_until_whole()


def test_the_controller_of_ray_serve_is_killed(site: Site, trial: Trial):
    def fault(load):
        (controller,) = site.titled("ray::ServeController")
        kill(controller)

    load, _ = trial(site, fault)
    assert not load.troubles  # it is not on the road of a request
    site.wait_until(lambda: site.titled("ray::ServeController"))


def test_the_database_server_is_killed(site: Site, trial: Trial):
    def fault(load):
        os.kill(site.database_pid(), signal.SIGKILL)

    load, _ = trial(site, fault)
    assert "the database died; starting it again" in site.said()
    assert set(load.troubles) <= {"503 DatabaseUnavailable"}
