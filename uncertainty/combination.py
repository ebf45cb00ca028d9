"""Scores made of other scores of the same row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from uncertainty.checks import Array, InvalidInput, fraction, one_of, real_number
from uncertainty.feature_scores import FeatureLogistic, FeatureLogisticScore
from uncertainty.hybrid import HybridRanks, Variant, fit_hybrid


class Combination(Protocol):
    """A fitted combination: scores by name in, [n] out, higher when the model is less sure."""

    def of(self, scores: Mapping[str, Array]) -> Array: ...


class CombinationRecipe(Protocol):
    """A combination as it is configured, before it has seen data."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The scores that it is made of."""
        ...

    def fit(self, scores: Mapping[str, Array], quality: Array) -> Combination:
        """Fit on the scores of rows that none of them was fitted on, which were right to the degree of `quality`."""
        ...


@dataclass(frozen=True, kw_only=True)
class HybridScore:
    """HUQ with the names of the scores that it mixes."""

    epistemic: str
    aleatoric: str
    ranks: HybridRanks

    def of(self, scores: Mapping[str, Array]) -> Array:
        return self.ranks.mix(scores[self.epistemic], scores[self.aleatoric])


@dataclass(frozen=True, kw_only=True)
class Hybrid:
    """`hybrid`: HUQ as it is configured, a score of strangeness and one of doubt."""

    epistemic: str = "mahalanobis"
    aleatoric: str = "softmax_response"
    variant: Variant = "linear"
    alpha: float = 0.2
    delta_min: float = 0.1
    delta_max: float = 0.9

    def __post_init__(self) -> None:
        for name in ("alpha", "delta_min", "delta_max"):
            fraction(name, getattr(self, name))
        one_of("variant", self.variant, ("linear", "step"))

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.epistemic, self.aleatoric)

    def fit(self, scores: Mapping[str, Array], quality: Array) -> HybridScore:  # noqa: ARG002 - labels play no part
        ranks = fit_hybrid(
            scores[self.epistemic],
            scores[self.aleatoric],
            alpha=self.alpha,
            variant=self.variant,
            delta_min=self.delta_min,
            delta_max=self.delta_max,
        )
        return HybridScore(epistemic=self.epistemic, aleatoric=self.aleatoric, ranks=ranks)


@dataclass(frozen=True, kw_only=True)
class LogisticScore:
    """1 - probability of being right, from a logistic regression on several scores."""

    sources: list[str]
    regression: FeatureLogisticScore

    def of(self, scores: Mapping[str, Array]) -> Array:
        return self.regression.uncertainty(_columns(scores, self.sources))


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """`logistic`: the same as it is configured. Needs predictions that are right or wrong, and some of each."""

    of: tuple[str, ...]
    C: float = 1.0

    def __post_init__(self) -> None:
        if not self.of:
            raise InvalidInput("of names no score to learn from")
        real_number("C", self.C, above=0)

    @property
    def sources(self) -> tuple[str, ...]:
        return self.of

    def fit(self, scores: Mapping[str, Array], quality: Array) -> LogisticScore:
        regression = FeatureLogistic(C=self.C).fit(_columns(scores, self.of), quality)
        return LogisticScore(sources=list(self.of), regression=regression)


COMBINATIONS: dict[str, Callable[..., CombinationRecipe]] = {"hybrid": Hybrid, "logistic": Logistic}

FITTED_COMBINATIONS = (HybridScore, LogisticScore)
"""What an artifact may hold in the place of a combination."""


def _columns(scores: Mapping[str, Array], names: Any) -> Array:
    return np.stack([scores[name] for name in names], axis=1)
