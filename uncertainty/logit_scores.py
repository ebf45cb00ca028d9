"""Scores of raw logits [n, C]: unbounded, higher when the model is less sure.

They need the logits themselves. Log-probabilities are no substitute: the energy of these is 0 in every row.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from demur.uncertainty.checks import Array, finite, real_number
from demur.uncertainty.output import LabelledOutput, Need, Output


@dataclass(frozen=True, kw_only=True)
class Energy:
    """`energy` as it is configured, and as it is fitted: there is nothing to fit."""

    needs: ClassVar[frozenset[Need]] = frozenset({"logits"})

    temperature: float = 1.0

    def __post_init__(self) -> None:
        real_number("temperature", self.temperature, above=0)

    def fit(self, rows: LabelledOutput, quality: Array) -> "Energy":  # noqa: ARG002 - nothing to learn
        return self

    def of(self, output: Output) -> Array:
        return energy(output.needed("logits"), self.temperature)


def energy(logits: Any, temperature: float = 1.0) -> Array:
    """Return [n]: -T ln sum_c exp(z_c / T) of each row, T > 0 (Liu et al. 2020)."""
    z = finite("logits", logits, ndim=2)
    t = real_number("temperature", temperature, above=0)
    return np.asarray(-t * logsumexp(z / t, axis=1))


def max_logit(logits: Any) -> Array:
    """Return [n]: minus the largest logit of each row (Hendrycks et al. 2022)."""
    return np.asarray(-finite("logits", logits, ndim=2).max(axis=1))
