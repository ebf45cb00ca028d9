"""Which models there are too few GPUs for, and what is said of it."""

import pytest

from demur.serve.config.file import ModelConfig
from demur.serve.hosts.gpus import gpu_shortages, gpus_of_replica


def configured(quickstart, **hosts):
    """The quickstart with models whose hosts ask for these things."""
    digits = quickstart.models["digits"].model_dump()
    models = {
        name: ModelConfig.model_validate({**digits, "host": {**digits["host"], **host}}) for name, host in hosts.items()
    }
    return quickstart.model_copy(update={"models": models})


@pytest.mark.parametrize(
    ("host", "there", "key", "said"),
    [
        ({"gpus": 1}, 0, "gpus", "it asks for 1 GPU, and this machine has 0; set `gpus: 0` and `device: cpu`"),
        ({"gpus": 2, "replicas": 2}, 2, "gpus", "it asks for 4 GPUs, and this machine has 2; share one with"),
        ({"device": "cuda"}, 0, "device", "there is no cuda: this machine has 0 GPUs; set `device: cpu`"),
        ({"device": "cuda:1"}, 1, "device", "there is no cuda:1: this machine has 1 GPU;"),
        ({"replicas": 2}, 1, "gpus", "it asks for 2 GPUs, and this machine has 1;"),
        ({}, 0, None, ""),  # the CPU will do
        ({"gpus": 1}, 1, None, ""),
        ({"gpus": 0.5}, 1, None, ""),
        ({"device": "cpu", "replicas": 4}, 1, None, ""),
    ],
)
def test_one_model(quickstart, host, there, key, said):
    found = gpu_shortages(configured(quickstart, only=host), there)
    assert list(found) == (["only"] if key else [])
    if key:
        assert found["only"].key == key
        assert found["only"].why.startswith(said)


def test_models_take_gpus_in_their_order_and_who_gets_none_takes_none(quickstart):
    config = configured(quickstart, first={"gpus": 1}, large={"gpus": 2}, second={"gpus": 1}, third={"gpus": 0.5})
    found = gpu_shortages(config, 2)
    assert list(found) == ["large", "third"]
    assert "it asks for 2 GPUs, and this machine has 2, of which the models before it leave 1;" in found["large"].words
    assert "of which the models before it leave 0" in found["third"].words


def test_what_is_left_out_takes_no_gpu(quickstart):
    config = configured(quickstart, gone={"gpus": 1}, there={"gpus": 1})
    assert list(gpu_shortages(config, 1)) == ["there"]
    assert gpu_shortages(config, 1, left_out={"gone"}) == {}


def test_ray_is_asked_for_one_where_there_is_one_and_nothing_is_said(quickstart):
    model = configured(quickstart, one={}).models["one"]
    assert [gpus_of_replica(model.host, there) for there in (0, 1, 8)] == [0, 1, 1]
