"""Scores that a network's own device makes, so that embeddings and dropout passes do not leave it.

The formulas in `demur.uncertainty` are the reference, and scores are fitted with them. Here they are written once more
in torch, in double precision and with the same steps. Only scores that read an embedding or passes are here: what
reads probabilities or logits costs microseconds in NumPy, and these leave the device anyway.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from demur.serve.contract.model import DeviceScore
from demur.uncertainty.checks import Array, InvalidInput
from demur.uncertainty.deep_knn import QUERIES_AT_A_TIME, NeighbourDistance
from demur.uncertainty.mahalanobis import MahalanobisDistance, RelativeDistance
from demur.uncertainty.output import NOT_READ, Need
from demur.uncertainty.scores import Formula, Score

log = logging.getLogger("demur.host")

Compute = Callable[[torch.Tensor], torch.Tensor]

DEVICES = frozenset({"cuda"})
"""Types of devices that make scores. On a CPU nothing would be saved; `mps` has no double precision."""

EXACTLY = "donot_use_mm_for_euclid_dist"
"""Distances by differences, as scipy has them: by products they lose half of their digits where rows are close."""


def device_score(name: str, score: Score, device: torch.device) -> DeviceScore | None:
    """Return a fitted score as `device` makes it; None for one that stays in NumPy, also where the memory of the device
    has no room for what was fitted."""
    try:
        if isinstance(score, MahalanobisDistance):
            return DeviceScore(name=name, part="embedding", compute=_mahalanobis(score, device))
        if isinstance(score, RelativeDistance):
            return DeviceScore(name=name, part="embedding", compute=_relative(score, device))
        if isinstance(score, NeighbourDistance):
            return DeviceScore(name=name, part="embedding", compute=_neighbour(score, device))
    except torch.OutOfMemoryError as error:
        log.warning("the score %s is made by the CPU: %s", name, error)
        return None
    if isinstance(score, Formula) and score.name in OF_PASSES:
        return DeviceScore(name=name, part="mc_probabilities", compute=OF_PASSES[score.name])
    return None


def made_of(scores: Sequence[DeviceScore], parts: Mapping[Need, torch.Tensor]) -> list[torch.Tensor]:
    """Return each score [n]; `NOT_READ` in rows where what it reads has a number that is not finite."""
    wide = {part: parts[part].double() for part in {score.part for score in scores}}
    finite = {part: torch.isfinite(values.flatten(1)).all(dim=1) for part, values in wide.items()}
    return [torch.where(finite[one.part], one.compute(wide[one.part]), NOT_READ) for one in scores]


def _mahalanobis(score: MahalanobisDistance, device: torch.device) -> Compute:
    middle, whitening = score.means.mean(axis=0), score.whitening
    there = _placed((score.means - middle) @ whitening, device)
    offset, turned = _placed(middle, device), _placed(whitening, device)

    def distance(rows: torch.Tensor) -> torch.Tensor:
        _check_width(rows, len(whitening))
        to_all = torch.cdist((rows - offset) @ turned, there, compute_mode=EXACTLY)
        return to_all.square().amin(dim=1)

    return distance


def _relative(score: RelativeDistance, device: torch.device) -> Compute:
    nearest = _mahalanobis(score.nearest, device)
    if len(score.nearest.means) == 1:
        return lambda rows: torch.zeros_like(nearest(rows))
    background = _mahalanobis(score.background, device)
    return lambda rows: nearest(rows) - background(rows)


def _neighbour(score: NeighbourDistance, device: torch.device) -> Compute:
    directions = _placed(score.directions, device)
    nth = min(score.k, len(directions))

    def distance(rows: torch.Tensor) -> torch.Tensor:
        _check_width(rows, directions.shape[1])
        largest = rows.abs().amax(dim=1, keepdim=True)
        scaled = rows / torch.where(largest > 0, largest, 1)  # so that no square leaves the range of floats
        length = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
        points = scaled / torch.where(length > 0, length, 1)
        found = [
            torch.cdist(block, directions, compute_mode=EXACTLY).kthvalue(nth, dim=1).values
            for block in points.split(QUERIES_AT_A_TIME)
        ]
        return torch.where(largest[:, 0] > 0, torch.cat(found), torch.nan)

    return distance


def _sampled_max_probability(passes: torch.Tensor) -> torch.Tensor:
    return 1 - passes.mean(dim=1).amax(dim=1)


def _mc_entropy(passes: torch.Tensor) -> torch.Tensor:
    return torch.special.entr(passes.mean(dim=1)).sum(dim=1)


def _probability_variance(passes: torch.Tensor) -> torch.Tensor:
    return passes.var(dim=1, correction=0).mean(dim=1)


def _bald(passes: torch.Tensor) -> torch.Tensor:
    expected = torch.special.entr(passes).sum(dim=2).mean(dim=1)
    return (_mc_entropy(passes) - expected).clamp(min=0)


OF_PASSES: dict[str, Compute] = {
    "sampled_max_probability": _sampled_max_probability,
    "mc_entropy": _mc_entropy,
    "probability_variance": _probability_variance,
    "bald": _bald,
}
"""From probabilities [n, T, C]. Every formula of `mc_probabilities` in `FORMULAS` is here; a test holds that."""


def probabilities_of_passes(logits: torch.Tensor) -> torch.Tensor:
    """Return probabilities [n, T, C] of logits of labels that exclude each other; a single logit z is (0, z)."""
    wide = logits.double()
    if wide.shape[-1] == 1:
        wide = torch.cat([torch.zeros_like(wide), wide], dim=-1)
    return wide.softmax(dim=-1)


def _check_width(rows: torch.Tensor, fitted: int) -> None:
    if rows.shape[1] != fitted:
        raise InvalidInput(f"features have {rows.shape[1]} dimensions; {fitted} were fitted")


def _placed(values: Array, device: torch.device) -> Any:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).to(device)
