"""Ray gives up on its own node after 30 seconds, and a busy machine takes longer."""

import inspect
import itertools

import pytest

from demur.serve.local.ray_patience import patient_start


@pytest.fixture
def services():
    from ray._private import services

    return services


def test_ray_asks_for_its_node_where_it_is_made_to_wait():
    from ray._private import node

    assert "ray._private.services.get_node(" in inspect.getsource(node.Node.__init__)


def test_a_node_that_comes_late_is_waited_for(services, monkeypatch):
    asked = itertools.count(1)

    def late(gcs_address, node_id):
        if next(asked) < 3:
            raise RuntimeError("no such node")
        return {"node_id": node_id}

    monkeypatch.setattr(services, "get_node", late)
    with patient_start():
        assert services.get_node("an address", "a node") == {"node_id": "a node"}
    assert services.get_node is late
    assert next(asked) == 4


def test_a_node_that_never_comes_is_given_up(services, monkeypatch):
    def never(gcs_address, node_id):
        raise RuntimeError("no such node")

    monkeypatch.setattr(services, "get_node", never)
    with patient_start(seconds=0.6), pytest.raises(RuntimeError, match="no such node"):
        services.get_node("an address", "a node")


def test_a_start_that_is_ended_meanwhile_waits_no_longer(services, monkeypatch):
    def never(gcs_address, node_id):
        raise RuntimeError("no such node")

    def ended():
        raise KeyboardInterrupt

    monkeypatch.setattr(services, "get_node", never)
    with patient_start(ended), pytest.raises(KeyboardInterrupt):
        services.get_node("an address", "a node")
    assert services.get_node is never
