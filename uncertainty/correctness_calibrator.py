"""`correctness`: confidence from the whole output of the model, where that is better than the score alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, memberships, real_number, where_known, whole_number
from demur.uncertainty.correctness_model import (
    BLOCKS,
    CorrectnessModel,
    CorrectnessRecipe,
    correctness_crossfit,
)

SCORE_FLOOR = 1e-12
"""How near to 0 and 1 probabilities are told apart by the score alone: some models give few others."""

LEAD, FEW_ROWS = 1.0, 100
"""Below so many rows the model must lead the score by so much log-likelihood, because the better of the two is often
better by chance there. METHODS 10.1 asks for no lead, and with more rows a lead would cost more than it saves
(docs/evidence/correctness-rows.md)."""


@dataclass(frozen=True, kw_only=True)
class CorrectnessMap:
    """The fitted model of correctness, or what the score alone says, with the losses by which it was chosen."""

    reads: ClassVar[str] = "answers"

    model: CorrectnessModel
    use: str
    """`model` or `score`: what is used."""

    nll: float | None
    """Mean negative log-likelihood of the model on rows of other folds; None where there was nothing to choose from."""

    score_nll: float | None
    """The loss of the score alone in the same folds."""

    n: int
    """Rows that it was fitted on."""

    def confidence(self, evidence: Array) -> Array:
        """Probability [n] that the given label is right, from `evidence` [n, 2, C]: probabilities, and the label."""
        return where_known(evidence, lambda rows: self.model.confidence(rows[:, 0], rows[:, 1].argmax(axis=1)))

    @property
    def remark(self) -> str:
        """What was chosen, and why, in a sentence."""
        if self.nll is None or self.score_nll is None:
            return (
                f"correctness: {self.n:,} rows have too few right or wrong answers for a model of the whole output, so"
                " confidence goes by the probability of the given label alone; more labels would change that"
            )
        if self.use == "score":
            little = ", which is too little better to rely on with so few rows" if self.nll < self.score_nll else ""
            return (
                "correctness: confidence goes by the probability of the given label alone; its cross-fitted loss is"
                f" {self.score_nll:.4f}, and {self.nll:.4f} with the whole output of the model{little}"
            )
        return (
            f"correctness: confidence goes by the whole output of the model ({', '.join(self.model.blocks)}); its"
            f" cross-fitted loss is {self.nll:.4f}, and {self.score_nll:.4f} by the probability of the given label"
        )


@dataclass(frozen=True, kw_only=True)
class Correctness:
    """The calibrator as it is configured. It reads probabilities and the given label, whatever the score."""

    reads: ClassVar[str] = "answers"

    blocks: tuple[str, ...] = BLOCKS
    C: float = 1.0
    top: int = 10
    max_vector: int = 50
    min_label_rows: int = 20
    min_events: int = 10
    folds: int = 5
    """Parts in which the model and the score alone are compared."""

    lead: float = LEAD
    """By so much the cross-fitted log-likelihood of all rows together must be larger with the model, where they are
    fewer than `FEW_ROWS`."""

    seed: int = 0
    """Which rows are in which part is random; `seed` fixes it."""

    def __post_init__(self) -> None:
        _ = self.recipe
        whole_number("folds", self.folds, least=2)
        whole_number("seed", self.seed, least=0)
        real_number("lead", self.lead, least=0)

    @property
    def recipe(self) -> CorrectnessRecipe:
        names = ("C", "top", "max_vector", "min_label_rows", "min_events")
        return CorrectnessRecipe(blocks=self.blocks, **{name: getattr(self, name) for name in names})

    def fit(
        self, evidence: Array, target: Array, weights: Array | None = None, clusters: Sequence[Any] | None = None
    ) -> CorrectnessMap:
        """Fit to `target` [n], 1 where the given label is right, else 0; rows of one cluster are compared in one part.

        What a rule promises must be counted on rows that neither the model nor this choice has seen.
        """
        probs, given = evidence[:, 0], evidence[:, 1].argmax(axis=1)
        fitted, n = self.recipe.fit(probs, target, given, weights), len(target)
        member = self._members(n, clusters)
        if fitted.kind == "score" or member.max() == 0:
            alone = self.by_score.fit(probs, target, given, weights)
            return CorrectnessMap(model=alone, use="score", nll=None, score_nll=None, n=n)
        found = correctness_crossfit(probs, target, member, self.recipe, given, weights, self.by_score)
        counted = n if weights is None else float(np.sum(weights)) ** 2 / float(np.sum(np.square(weights)))
        lead = self.lead if counted < FEW_ROWS else 0.0
        leads = found.use == "model" and counted * (found.score_nll - found.nll) >= lead
        return CorrectnessMap(
            model=fitted if leads else self.by_score.fit(probs, target, given, weights),
            use="model" if leads else "score",
            nll=found.nll,
            score_nll=found.score_nll,
            n=n,
        )

    @property
    def by_score(self) -> CorrectnessRecipe:
        """The probability of the given label alone, told apart as far as the score that is 1 minus it."""
        return replace(self.recipe, blocks=(), floor=SCORE_FLOOR)

    def _members(self, n: int, clusters: Sequence[Any] | None) -> NDArray[np.intp]:
        """[n], the part of each row."""
        belongs = np.arange(n) if clusters is None else memberships("clusters", clusters)
        parts = np.random.default_rng(self.seed).permutation(int(belongs.max()) + 1) % self.folds
        return np.asarray(parts[belongs], dtype=np.intp)
