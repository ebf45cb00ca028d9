"""Scores from the probabilities of labels that may hold together (MADE A.4).

`probs` is [n, L], each value in [0, 1] by itself: rows need not sum to 1. Higher is less sure; logarithms are natural.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import entr

from demur.uncertainty.checks import Array, one_of, unit_interval
from demur.uncertainty.output import LabelledOutput, Need, Output

Reduce = Literal["sum", "mean", "max"]

REDUCTIONS: dict[str, Callable[..., Array]] = {"sum": np.sum, "mean": np.mean, "max": np.max}


def binary_entropy(probs: Any) -> Array:
    """Entropy [n, L] of each label's own yes or no, in [0, ln 2]."""
    p = unit_interval("probs", probs, ndim=2)
    return np.asarray(entr(p) + entr(1 - p))


def binary_entropy_sample(probs: Any, *, reduce: Reduce = "sum") -> Array:
    """One number [n] for each row: the sum over its labels, which is in [0, L ln 2], their mean, or the largest."""
    one_of("reduce", reduce, list(REDUCTIONS))
    return np.asarray(REDUCTIONS[reduce](binary_entropy(probs), axis=1))


@dataclass(frozen=True, kw_only=True)
class BinaryEntropy:
    """The score as it is configured; there is nothing to fit."""

    needs: ClassVar[frozenset[Need]] = frozenset({"probabilities"})

    reduce: Reduce = "sum"

    def __post_init__(self) -> None:
        one_of("reduce", self.reduce, list(REDUCTIONS))

    def fit(self, rows: LabelledOutput, quality: Array) -> "BinaryEntropy":  # noqa: ARG002 - nothing to learn
        return self

    def of(self, output: Output) -> Array:
        return binary_entropy_sample(output.probabilities, reduce=self.reduce)
