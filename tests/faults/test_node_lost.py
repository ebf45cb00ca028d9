"""One of two nodes that serve is lost under load, of a local Ray cluster; one is added, and hosts come and go."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import LARGE, Trial
from tests.faults.load import Load, account_of
from tests.faults.local_cluster import LocalCluster

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(digits: Path) -> Iterator[LocalCluster]:
    running = LocalCluster(digits, small=not LARGE)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def test_a_node_is_lost(cluster: LocalCluster, trial: Trial) -> None:
    head, *workers = cluster.nodes
    assert not head.replicas("")  # it keeps the cluster, and serves nothing

    def worth(node):
        gateways, hosts = len(node.replicas("Gateway")), len(node.replicas("host-digits"))
        return min(gateways, hosts), gateways

    lost = max(workers, key=worth)  # with gateways and hosts, as far as Ray has put them together
    went = lost.replicas("")
    assert lost.replicas("Gateway")

    whole_after = []

    def fault(load):
        began = time.monotonic()
        lost.lose()
        if LARGE:
            cluster.wait_until_whole()  # on the nodes that are left
            whole_after.append(time.monotonic() - began)

    load, _ = trial(cluster, fault, headers=cluster.headers)
    assert not any(process.is_running() for process in went)
    assert {told.status for told in load.told} <= {0, 200, 500, 502, 503, 504}, load.troubles
    print(f"replicas are whole again after {whole_after} s")


@pytest.mark.skipif(not LARGE, reason="takes minutes: make bench-faults")
def test_hosts_come_and_go_with_the_load(cluster: LocalCluster, trial: Trial) -> None:
    cluster.add_node()  # in the place of the one that was lost
    fewest = cluster.fewest_hosts
    cluster.wait_until(lambda: len(cluster.replicas("host-digits")) == fewest)  # after what was asked of it before
    many = Load(cluster.url, cluster.inputs, callers=48, headers=cluster.headers)

    def fault(load):
        with many:
            cluster.wait_until(lambda: len(cluster.replicas("host-digits")) > fewest)
            many.wait_for(500)
        cluster.wait_until(lambda: len(cluster.replicas("host-digits")) == fewest)

    load, _ = trial(cluster, fault, callers=4, pause_seconds=0.05, headers=cluster.headers)
    everything = account_of(cluster.dsn, load, many)
    assert everything.clean, everything
    assert not load.troubles
    assert set(many.troubles) <= {"503 Overloaded"}
