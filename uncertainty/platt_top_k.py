"""Platt scaling of the k most probable labels of a row (XMLC section 2.3, on log-odds of the probabilities)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from demur.uncertainty.checks import Array, InvalidInput, Mask, one_of, whole_number
from demur.uncertainty.label_confidence import LabelCalibrator, top_pairs
from demur.uncertainty.output import LabelledOutput
from demur.uncertainty.platt import CLIP, PlattMap, fit_platt


@dataclass(frozen=True, kw_only=True)
class PlattRanks:
    """A logistic curve for all ranks, or one for each."""

    slopes: Array
    """[1] or [k], of `PlattMap.a`."""

    intercepts: Array
    """[1] or [k], of `PlattMap.b`."""

    def of(self, top: Array, labels: NDArray[np.intp] | None = None) -> Array:  # noqa: ARG002 - all labels alike
        """Calibrated probabilities, in the shape of `top` [n, k]."""
        if len(self.slopes) not in (1, top.shape[1]):
            raise InvalidInput(f"{top.shape[1]} ranks are to be calibrated; {len(self.slopes)} were fitted")
        return np.asarray(expit(-(self.slopes * _log_odds(top) + self.intercepts)))


@dataclass(frozen=True, kw_only=True)
class TopKPlatt:
    """`joint`: one curve for all ranks. `separate`: a curve for each rank."""

    mode: Literal["joint", "separate"] = "joint"
    k: int = 5
    smoothing: bool = True
    """Use Platt's targets instead of 0 and 1."""

    def __post_init__(self) -> None:
        whole_number("k", self.k, least=1)
        one_of("mode", self.mode, ("joint", "separate"))

    @property
    def by_label(self) -> bool:
        return False

    def fit(self, rows: LabelledOutput) -> LabelCalibrator:
        top, hits = top_pairs(rows, self.k)
        k = top.shape[1]
        if self.mode == "joint":
            weights = None if rows.weights is None else np.repeat(rows.weights, k)
            maps = [fit_platt(_log_odds(top).ravel(), hits.ravel(), weights=weights, smoothing=self.smoothing)]
        else:
            maps = [self._of_rank(top[:, rank], hits[:, rank], rows.weights) for rank in range(k)]
        curves = PlattRanks(slopes=np.array([one.a for one in maps]), intercepts=np.array([one.b for one in maps]))
        return LabelCalibrator(k=k, maps=curves)

    def _of_rank(self, top: Array, hits: Mask, weights: Array | None) -> PlattMap:
        return fit_platt(_log_odds(top), hits, weights=weights, smoothing=self.smoothing)


def _log_odds(probabilities: Array) -> Array:
    return np.asarray(logit(np.clip(probabilities, CLIP, 1 - CLIP)))
