"""On which device a model runs, and how torch is prepared for it."""

import pytest
import torch

from demur.serve.hosts.classifier.loading import device_of


@pytest.mark.parametrize(("device", "kept"), [("cpu", True), ("mps", True), ("cuda", False), ("cuda:1", False)])
def test_a_gpu_makes_no_plan_for_each_size_of_a_batch(device, kept):
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        assert device_of(device) == torch.device(device)
        assert torch.backends.cuda.cudnn_sdp_enabled() is kept
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def test_auto_is_the_best_device_there_is(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert device_of("auto") == torch.device("cpu")
