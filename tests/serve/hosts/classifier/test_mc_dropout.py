import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from demur.serve.hosts.classifier import mc_dropout
from demur.serve.hosts.classifier.mc_dropout import DropoutPasses, Masks, only_dropout_training


def test_only_dropout_is_in_training():
    class SomeAttention(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x, 0.5, training=self.training)

    model = nn.Sequential(nn.BatchNorm1d(3), SomeAttention(), nn.Dropout(0.5), nn.Linear(3, 3)).eval()
    with only_dropout_training(model):
        assert [module.training for module in model] == [False, True, True, False]
        model(torch.rand(4, 3))
    assert not any(module.training for module in model.modules())
    assert model[0].num_batches_tracked == 0


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_masks_drop_the_asked_share_and_keep_the_mean(p):
    with Masks(seed=0):
        dropped = functional.dropout(torch.ones(1000, 500), p, training=True)
    kept = dropped != 0
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=0.003)
    assert dropped.mean().item() == pytest.approx(1, abs=0.02)
    assert dropped[kept].unique().item() == pytest.approx(1 / (1 - p), rel=1e-6)


def test_ends_of_the_range_and_dropout_that_is_off():
    x = torch.rand(5, 3)
    with Masks(seed=0):
        assert torch.equal(functional.dropout(x, 0.0, training=True), x)
        assert torch.equal(functional.dropout(x, 1.0, training=True), torch.zeros(5, 3))
        assert torch.equal(functional.dropout(x, 0.5, training=False), x)


@pytest.mark.parametrize(("is_causal", "mask"), [(True, "none"), (False, "none"), (False, "bool"), (False, "added")])
def test_attention_in_steps_is_attention(is_causal, mask):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 5, 4) for _ in range(3))
    keep = torch.rand(2, 1, 5, 5) > 0.3
    keep[..., 0] = True  # nothing to attend to is undefined
    laid_over = {"none": None, "bool": keep, "added": torch.where(keep, 0.0, -3.0)}[mask]
    wanted = functional.scaled_dot_product_attention(query, key, value, laid_over, is_causal=is_causal)
    with Masks(seed=0, drop_nothing=True):
        got = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=laid_over, is_causal=is_causal, dropout_p=0.3
        )
    torch.testing.assert_close(got, wanted)


class Head(nn.Module):
    """All work before the only dropout."""

    def __init__(self, residual=False):
        super().__init__()
        self.body, self.drop, self.head = nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 3)
        self.residual = residual
        self.rows_in_body = 0

    def forward(self, features):
        x = self.body(features["x"])
        self.rows_in_body += len(x)
        return self.head(self.drop(x) + (x if self.residual else 0))


def test_what_comes_before_the_first_dropout_is_done_once():
    torch.manual_seed(0)
    model = Head().eval()
    passes = DropoutPasses(model, model)
    x = torch.rand(50, 6)
    passes.run({"x": x}, 20)
    model.rows_in_body = 0
    logits = passes.run({"x": x}, 20)
    assert logits.shape == (50, 20, 3)
    assert model.rows_in_body == 50
    plain = model({"x": x})
    many = passes.run({"x": x[:2]}, 4000).mean(dim=1)  # the mean over masks of a linear head is the plain pass
    torch.testing.assert_close(many, plain[:2], atol=0.05, rtol=0)


def test_where_rows_cannot_be_repeated_halfway_they_are_from_the_start():
    torch.manual_seed(0)
    model = Head(residual=True).eval()
    passes = DropoutPasses(model, model)
    logits = passes.run({"x": torch.rand(7, 6)}, 5)
    assert logits.shape == (7, 5, 3)
    assert model.rows_in_body > 7 * 5
    assert logits.std(dim=1).min() > 0


@pytest.mark.parametrize(
    ("large", "device", "together"),
    [(False, "cpu", 512), (False, "cuda", 512), (True, "cpu", [1, 8, 200]), (True, "cuda", [64, 64, 200])],
)
def test_a_gpu_is_given_passes_of_a_large_model_together(monkeypatch, large, device, together):
    monkeypatch.setattr(mc_dropout, "LARGE", 10 if large else 1000)
    model = Head().eval()
    passes = DropoutPasses(model, model)
    found = [passes._rows_together(n, torch.device(device)) for n in (1, 8, 200)]
    assert found == (together if large else [together] * 3)


def test_passes_that_drop_nothing_are_all_alike():
    model = nn.Sequential(nn.Linear(4, 3)).eval()
    passes = DropoutPasses(model, lambda features: model(features["x"]))
    x = torch.rand(3, 4)
    torch.testing.assert_close(passes.run({"x": x}, 4), model(x)[:, None].expand(3, 4, 3))


def test_a_seed_decides():
    model = Head().eval()
    passes, x = DropoutPasses(model, model), torch.rand(3, 6)
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(passes.run({"x": x}, 3).detach().numpy())
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
