"""What keeps a model from being served is found before anything is fitted or started."""

import pytest

from demur.serve.config.file import ModelConfig
from demur.serve.local import unusable_models as looked_at
from demur.serve.local.unusable_models import unusable_models


@pytest.fixture
def three(quickstart, monkeypatch):
    """One model that can be served, one without its checkpoint, one that wants a GPU; this machine has none."""
    monkeypatch.setattr(looked_at, "gpus_here", lambda: 0)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    digits = quickstart.models["digits"]
    hosts = {"gone": {"checkpoint": "/nowhere/at/all", "gpus": 8}, "fast": {"gpus": 1}}
    told = {name: {**digits.model_dump(), "host": {**digits.host.model_dump(), **host}} for name, host in hosts.items()}
    models = {"digits": digits, **{name: ModelConfig.model_validate(one) for name, one in told.items()}}
    return quickstart.model_copy(update={"models": models})


def test_each_has_its_reason(three):
    reasons = unusable_models(three)
    assert sorted(reasons) == ["fast", "gone"]
    assert "/nowhere/at/all" in reasons["gone"]
    assert reasons["fast"].startswith("host.gpus: it asks for 1 GPU, and this machine has 0; set `gpus: 0`")


def test_the_gpus_of_a_cluster_are_its_own_affair(three, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert list(unusable_models(three)) == ["gone"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os\nos.abort()\n", "ended the process in which it was tried (signal 6, SIGABRT)"),
        ("import sys\nsys.exit('no licence')\n", "cannot be imported: SystemExit: no licence"),
    ],
)
def test_a_module_that_ends_the_program_leaves_the_others_alone(quickstart, tmp_path, monkeypatch, code, why):
    (tmp_path / "crashing_module.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    digits = quickstart.models["digits"].model_dump()
    mine = {**digits, "host": {"kind": "python", "class": "crashing_module:Model"}, "scores": ["softmax_response"]}
    mine |= {"confidence": {"score": "softmax_response"}, "policy": {"kind": "rejection_rate", "rate": 0.2}}
    models = {"digits": quickstart.models["digits"], "mine": ModelConfig.model_validate(mine)}
    reasons = unusable_models(quickstart.model_copy(update={"models": models}))
    assert list(reasons) == ["mine"]
    assert why in reasons["mine"]
