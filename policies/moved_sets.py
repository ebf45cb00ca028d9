"""Prediction sets for traffic whose inputs have moved: each request has a quantile of its own (METHODS 10.12)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.conformal import labelled
from demur.policies.conformal_sets import Reads, SplitSets, of_right
from demur.policies.covariate_shift import effective_number, weighted_conformal_quantile
from demur.policies.moved_inputs import LEAST_EFFECTIVE, MOST_UNLIKE, CurrentTraffic, FeatureWeights, row_weights
from demur.policies.promise import MOVED_INPUTS, Promise
from demur.policies.set_scores import ProbabilityComplement
from demur.uncertainty.checks import Array, InvalidInput, Mask
from demur.uncertainty.output import Output


@dataclass(frozen=True, kw_only=True)
class MovedLabelSets:
    """Fitted `split` sets of weighted rows: every label whose probability is at least 1 - the quantile of its row."""

    alpha: float
    scores: Array
    """[n], 1 - p of the right label of each fitted row."""

    weights: Array
    """[n], how much each of them stands for in the traffic."""

    weighting: FeatureWeights
    """Gives a request its own weight."""

    unlike: float = 0.0
    """The share of the traffic that the weights do not make up for."""

    wrong_weights: str = ""
    """Why the weighted rows are unlike the traffic, in words; empty where nothing shows it."""

    keep_predicted: bool = True

    @property
    def reads(self) -> Reads:
        return "probabilities"

    @property
    def feasible(self) -> bool:
        """Whether the rows tell enough of the traffic, and nothing shows that their weights are wrong."""
        return (
            not self.wrong_weights and self.unlike <= MOST_UNLIKE and effective_number(self.weights) >= LEAST_EFFECTIVE
        )

    @property
    def promise(self) -> Promise:
        """`n` is the number of rows of the traffic that the weighted ones are worth."""
        return Promise(
            share="of the sets lack the right label",
            target=self.alpha,
            delta=None,
            n=int(effective_number(self.weights)),
            feasible=self.feasible,
            assumption=MOVED_INPUTS,
        )

    @property
    def promise_in_words(self) -> str:
        return f"at {100 * self.alpha:g}% error on the traffic that they were fitted for"

    def of(self, seen: Array, groups: Sequence[str | None] | None = None) -> Mask:  # noqa: ARG002
        """Raise: the weight of a row hangs on more than sets read; see `of_output`."""
        raise InvalidInput("sets for traffic whose inputs have moved need the whole output of the model")

    def of_output(self, output: Output) -> Mask:
        """Return [n, C], True where the label is not ruled out: all of them where the rows tell too little."""
        if not self.feasible:
            return np.ones(output.probabilities.shape, dtype=bool)
        own = self.weighting.of(output, surest)
        limits = weighted_conformal_quantile(self.scores, self.weights, own, self.alpha)
        score = ProbabilityComplement()
        return np.asarray(score.of(output.probabilities) <= limits[:, None] + score.slack)


def surest(output: Output) -> Array:
    """[n], the largest probability: what sets weigh rows by where confidence is not known yet."""
    return np.asarray(output.probabilities.max(axis=1))


def takes_weights(recipe: Any) -> bool:
    """Whether sets that are configured so can stand for other traffic: `split` ones without a `delta`."""
    return isinstance(recipe, SplitSets) and recipe.delta is None


def moved_sets(
    recipe: SplitSets, rows: Output, classes: Any, *, current: CurrentTraffic, reference: Output
) -> MovedLabelSets:
    """Fit sets on labelled `rows` for the current traffic, with weights that are fitted on the `reference` rows."""
    seen, right = labelled(rows.probabilities, classes)
    found = row_weights(current, reference, rows, surest)
    known = found.weights > 0
    if not known.any():
        raise InvalidInput("no row of the prediction sets is like the new traffic; label rows of the new traffic")
    return MovedLabelSets(
        alpha=recipe.alpha,
        scores=of_right(ProbabilityComplement(), seen, right)[known],
        weights=found.weights[known],
        weighting=found.weighting,
        unlike=found.share_unlike,
        wrong_weights=found.wrong,
        keep_predicted=recipe.keep_predicted,
    )
