"""Passes with dropout left on (Gal & Ghahramani 2016), sharing what comes before the first dropout.

Rows are repeated, once for each pass, where the first dropout meets them and not before. Masks for a CPU are drawn byte
by byte, which takes a small part of the time that torch's own way of drawing them takes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
MOST_TOGETHER = 512
"""Rows in one forward pass, repeated ones counted."""

LARGE = 10_000_000
"""Parameters from which on a CPU is held up by the size of a model's tensors rather than by the number of its calls."""

LARGE_ROWS = 64
"""Rows of a large model in one forward pass on a GPU, which the calls of a few rows hold up; on a CPU those of the
batch."""

Features = Mapping[str, torch.Tensor]
Forward = Callable[[Features], torch.Tensor]
"""What a model makes of a batch: its logits [n, C]."""


class DropoutPasses:
    """Runs a model with dropout on. Finds out at its first use whether this model's passes can share work."""

    def __init__(self, model: nn.Module, forward: Forward) -> None:
        self._model = model
        self._forward = forward
        self._shares: bool | None = None
        self._is_large = sum(parameter.numel() for parameter in model.parameters()) > LARGE

    def run(self, features: Features, passes: int) -> torch.Tensor:
        """Return logits [n, passes, C]: every row of every pass has dropout masks of its own."""
        if self._shares is None:
            self._shares = self._can_share(features)
        n = len(next(iter(features.values())))
        seed = int(torch.randint(2**62, ()))  # so that torch.manual_seed decides here too
        together = self._rows_together(n, next(iter(features.values())).device)
        rows = max(1, together // passes)
        counts = _parts_of(passes, max(1, together // rows))
        done = []
        with only_dropout_training(self._model), Masks(seed) as masks:
            for start in range(0, n, rows):
                part = {name: tensor[start : start + rows] for name, tensor in features.items()}
                done.append(torch.cat([self._repeated(part, count, masks) for count in counts], dim=1))
        return torch.cat(done)

    def _rows_together(self, n: int, device: torch.device) -> int:
        if not self._is_large:
            return MOST_TOGETHER
        return n if device.type == "cpu" else max(n, LARGE_ROWS)

    def _repeated(self, features: Features, passes: int, masks: "Masks") -> torch.Tensor:
        n = len(next(iter(features.values())))
        if self._shares:
            masks.repeat_first(passes)
            # a mask is laid over what came out of the repetition, so it comes repeated; inputs do not
            given = {name: _tiled(tensor, passes) if "mask" in name else tensor for name, tensor in features.items()}
        else:
            given = {name: _tiled(tensor, passes) for name, tensor in features.items()}
        logits = self._forward(given)
        if len(logits) == n and passes > 1:  # nothing drops anything: all passes are the same
            logits = _tiled(logits, passes)
        return logits.reshape(passes, n, -1).transpose(0, 1)

    def _can_share(self, features: Features) -> bool:
        """Repeat two different rows halfway, with masks that drop nothing: what comes out must be the plain logits."""
        two = {name: _two_rows(tensor) for name, tensor in features.items()}
        plain = self._forward(two)
        self._shares = True
        try:
            with only_dropout_training(self._model), Masks(0, drop_nothing=True) as masks:
                again = self._repeated(two, 3, masks)
        except (RuntimeError, ValueError, IndexError):  # rows that were repeated met rows that were not
            return False
        return bool(again.shape[0] == len(plain) and torch.allclose(again, plain[:, None], atol=1e-4, rtol=1e-3))


class Masks(TorchFunctionMode):  # type: ignore[misc]  # torch is not type-checked here
    """While it is entered, this thread's dropout draws its masks here, and may repeat rows where it is first met."""

    def __init__(self, seed: int, *, drop_nothing: bool = False) -> None:
        super().__init__()
        self._bits = np.random.SFC64(seed)
        self._fine = np.random.Generator(np.random.SFC64([seed, 1]))
        self._drop_nothing = drop_nothing
        self._times = 1

    def repeat_first(self, times: int) -> None:
        """Repeat all rows `times` times at the next dropout that is met."""
        self._times = times

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.dropout:
            return self._dropout(*args, **kwargs)
        if func is functional.scaled_dot_product_attention and kwargs.get("dropout_p"):
            return self._attention(*args, **kwargs)
        return func(*args, **kwargs)

    def _dropout(
        self,
        input: torch.Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,  # noqa: ARG002
    ) -> torch.Tensor:
        if not training or p == 0:
            return input
        if self._times > 1:
            input, self._times = _tiled(input, self._times), 1
        if self._drop_nothing:
            return input
        if input.device.type != "cpu" or input.dtype != torch.float32:
            return functional.dropout(input, p, training=True)
        return torch.from_numpy(self._mask(input.numel(), p)).view(input.shape).mul_(input)

    def _mask(self, size: int, p: float) -> np.ndarray:
        """0 with probability p, else 1 / (1 - p)."""
        drawn: np.ndarray = self._bits.random_raw(-(-size // 8)).view(np.uint8)[:size]
        limit = int(p * 256)
        kept = drawn >= limit
        missing = (p - limit / 256) / (1 - limit / 256) if p < 1 else 0.0  # what a byte is too coarse for
        # a Poisson number of places, repeats and all, meets each place by itself with exactly this probability
        kept[self._fine.integers(0, size, self._fine.poisson(-size * np.log1p(-missing)))] = False
        scale = np.float32(1 / (1 - p)) if p < 1 else np.float32(0)
        return np.multiply(kept.view(np.uint8), scale, dtype=np.float32)

    def _attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        """Attention in plain steps: the fused kernel for a CPU knows no dropout, and torch's way around it is slow."""
        if self._times > 1:
            raise RuntimeError("attention drops weights before anything else does")
        if enable_gqa:
            key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
            value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
        weights = query @ key.transpose(-2, -1) * (query.size(-1) ** -0.5 if scale is None else scale)
        if is_causal:
            weights = weights.masked_fill(torch.ones_like(weights, dtype=torch.bool).triu(1), -torch.inf)
        if attn_mask is not None:
            nothing = torch.zeros((), dtype=weights.dtype)
            weights = weights + (
                torch.where(attn_mask, nothing, -torch.inf) if attn_mask.dtype == torch.bool else attn_mask
            )
        return self._dropout(weights.softmax(-1), dropout_p) @ value


@contextmanager
def only_dropout_training(model: nn.Module) -> Iterator[None]:
    """Dropout as in training, everything else (batch norm above all) as in use.

    Attention layers count as dropout: they drop attention weights by a function that asks for their own mode, and
    nothing else in them does.
    """
    dropping = [m for m in model.modules() if isinstance(m, DROPOUTS) or "Attention" in type(m).__name__]
    try:
        for module in dropping:
            module.training = True  # not .train(), which would reach the children
        yield
    finally:
        for module in dropping:
            module.training = False


def _parts_of(total: int, most: int) -> list[int]:
    return [min(most, total - start) for start in range(0, total, most)]


def _tiled(tensor: torch.Tensor, times: int) -> torch.Tensor:
    return tensor.repeat(times, *[1] * (tensor.ndim - 1))


def _two_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Two rows that differ: the first and the last, or the first and the same moved by one place."""
    second = tensor[-1:] if len(tensor) > 1 else tensor.roll(1, -1)
    return torch.cat([tensor[:1], second])
