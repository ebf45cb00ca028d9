"""Which modules the hosts of a machine share."""

from types import SimpleNamespace

import pytest

from demur.serve.config.file import Config
from demur.serve.hosts import gpus, libraries
from demur.serve.hosts.libraries import imported_by_hosts


@pytest.mark.parametrize("gpu", [False, True])
def test_libraries_are_shared_where_no_gpu_is(gpu, monkeypatch):
    """A process that has looked for a GPU cannot be copied for one that uses it."""
    monkeypatch.setattr(libraries, "any_gpu_here", lambda: gpu)
    kinds = ["classifier", "python", "classifier", "openai", "transformers", "vllm"]
    models = {str(n): SimpleNamespace(host=SimpleNamespace(kind=kind)) for n, kind in enumerate(kinds)}
    shared = [libraries.LIBRARIES["classifier"], libraries.LIBRARIES["transformers"]]
    config = Config.model_construct(models=models)
    assert imported_by_hosts(config) == ([] if gpu else shared)
    assert imported_by_hosts(config, left_out={"0", "2", "4"}) == []


def test_a_gpu_is_seen_by_its_device(monkeypatch):
    monkeypatch.setattr(gpus, "DEVICES", ("null",))
    assert gpus.any_gpu_here()
    monkeypatch.setattr(gpus, "DEVICES", ("no-such-device",))
    assert not gpus.any_gpu_here()
