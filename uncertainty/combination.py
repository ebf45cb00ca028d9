"""Scores made of other scores of the same row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from demur.uncertainty import consistency
from demur.uncertainty.checks import Array, InvalidInput, Mask, fraction, one_of, real_number
from demur.uncertainty.feature_scores import FeatureLogistic, FeatureLogisticScore
from demur.uncertainty.hybrid import HybridRanks, Variant, fit_hybrid
from demur.uncertainty.score_cascade import Cascade, ScoreCascade
from demur.uncertainty.venn_abers import VennAbersWidth, VennAbersWidthScore


class Combination(Protocol):
    """A fitted combination: scores by name in, [n] out, higher when the model is less sure; NaN where it is unknown."""

    @property
    def sources(self) -> Sequence[str]:
        """The scores that it is made of."""
        ...

    def of(self, scores: Mapping[str, Array]) -> Array: ...


class CombinationRecipe(Protocol):
    """A combination as it is configured, before it has seen data."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The scores that it is made of."""
        ...

    def fit(self, scores: Mapping[str, Array], quality: Array) -> Combination:
        """Fit on the scores of rows that none of them was fitted on, which were right to the degree of `quality`; rows
        of which a score is unknown are left out."""
        ...


@dataclass(frozen=True, kw_only=True)
class HybridScore:
    """HUQ with the names of the scores that it mixes."""

    epistemic: str
    aleatoric: str
    ranks: HybridRanks

    @property
    def sources(self) -> list[str]:
        return [self.epistemic, self.aleatoric]

    def of(self, scores: Mapping[str, Array]) -> Array:
        return _where_known(scores, self.sources, lambda columns: self.ranks.mix(columns[:, 0], columns[:, 1]))


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
        columns, _ = _known_rows(scores, self.sources)
        ranks = fit_hybrid(
            columns[:, 0],
            columns[:, 1],
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
        return _where_known(scores, self.sources, self.regression.uncertainty)


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
        columns, known = _known_rows(scores, self.of)
        regression = FeatureLogistic(C=self.C).fit(columns, quality[known])
        return LogisticScore(sources=list(self.of), regression=regression)


@dataclass(frozen=True, kw_only=True)
class Combined:
    """`combined`: U_info * U_cons (MADE A.4), unsure of the answer and answering differently. Nothing is fitted."""

    info: str = "token_entropy"
    consistency: str = "eigv_laplacian"

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.info, self.consistency)

    def fit(self, scores: Mapping[str, Array], quality: Array) -> "Combined":  # noqa: ARG002 - nothing to learn
        return self

    def of(self, scores: Mapping[str, Array]) -> Array:
        return _where_known(scores, self.sources, lambda columns: consistency.combined(columns[:, 0], columns[:, 1]))


COMBINATIONS: dict[str, Callable[..., CombinationRecipe]] = {
    "hybrid": Hybrid,
    "logistic": Logistic,
    "combined": Combined,
    "cascade": Cascade,
    "venn_abers_width": VennAbersWidth,
}

FITTED_COMBINATIONS = (HybridScore, LogisticScore, Combined, ScoreCascade, VennAbersWidthScore)
"""What an artifact may hold in the place of a combination."""


def learns(recipe: CombinationRecipe) -> bool:
    """Whether there is something to fit."""
    return not isinstance(recipe, Combined) and not (isinstance(recipe, Cascade) and not recipe.learns)


def _columns(scores: Mapping[str, Array], names: Sequence[str]) -> tuple[Array, Mask]:
    """[n, d], and [n], True where none of them is unknown or infinite."""
    columns = np.stack([scores[name] for name in names], axis=1)
    return columns, np.asarray(np.isfinite(columns).all(axis=1))


def _where_known(scores: Mapping[str, Array], names: Sequence[str], of: Callable[[Array], Array]) -> Array:
    columns, known = _columns(scores, names)
    if known.all():
        return of(columns)
    values = np.full(len(columns), np.nan)
    if known.any():
        values[known] = of(columns[known])
    return values


def _known_rows(scores: Mapping[str, Array], names: Sequence[str]) -> tuple[Array, Mask]:
    columns, known = _columns(scores, names)
    if not known.any():
        raise InvalidInput(f"no row has all of {', '.join(names)}, so nothing can be fitted to them")
    return columns[known], known
