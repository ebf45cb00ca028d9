"""How many replicas there are: what may be written."""

import pytest
import yaml

from demur.serve.config.file import BadConfig
from demur.serve.config.hosts.host import target_of_host
from demur.serve.configuration import load_config
from tests.conftest import ROOT


def content(**host):
    told = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    told["models"]["digits"]["host"].update(host)
    return {**told, "database": "postgresql://nobody@127.0.0.1/none"}


def load(tmp_path, told):
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(told))
    return load_config(tmp_path / "demur.yaml")


def test_there_is_one_of_everything(tmp_path):
    config = load(tmp_path, content())
    assert (config.gateway.replicas, config.console.replicas, config.audit.replicas) == (1, 1, 1)
    assert config.models["digits"].host.replicas_in_words == "1 replica"


def test_a_target_is_half_of_what_may_be_on_its_way(tmp_path):
    host = load(tmp_path, content(autoscaling={"max": 4})).models["digits"].host
    assert target_of_host(host) == 1.0
    assert host.replicas_in_words == "1 to 4 replicas"
    host = load(tmp_path, content(autoscaling={"max": 4, "target": 1.5})).models["digits"].host
    assert target_of_host(host) == 1.5


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ({"autoscaling": {"min": 3, "max": 2}}, "host.autoscaling.min: min is 3, above max, 2"),
        ({"autoscaling": {"min": 0, "max": 2}}, "autoscaling.min: write at least 1, not 0"),
        ({"autoscaling": {"min": 1}}, "autoscaling.max: this key is missing"),
        ({"autoscaling": {"max": 2}, "replicas": 2}, "`replicas` and `autoscaling` both say how many there are"),
        ({"autoscaling": {"max": 2, "target": 2}}, "so 2 would never be exceeded; write less than 2"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, host, why):
    with pytest.raises(BadConfig) as caught:
        load(tmp_path, content(**host))
    assert why in str(caught.value)
