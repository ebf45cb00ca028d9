"""The calibrators that can be configured: maps from a score to a probability of being right."""

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np

from demur.uncertainty.beta import Beta, BetaMap
from demur.uncertainty.checks import Array, InvalidInput, UnknownScore
from demur.uncertainty.histogram_binning import HistogramBinning, HistogramMap
from demur.uncertainty.isotonic import Isotonic, IsotonicMap
from demur.uncertainty.min_max import MinMax, MinMaxMap
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.platt import Platt, PlattMap
from demur.uncertainty.temperature import Temperature, TemperatureMap

Reads = Literal["score", "probability", "logits"]
"""What a calibrator takes as evidence of being right: the negated score; 1 - score, where that is a probability;
or the logits, whatever the score."""


class Calibrator(Protocol):
    """A fitted map."""

    @property
    def reads(self) -> str: ...

    def confidence(self, evidence: Array) -> Array: ...


class CalibratorRecipe(Protocol):
    """A calibrator as it is configured, before it has seen data."""

    @property
    def reads(self) -> str: ...

    def fit(self, evidence: Array, target: Array, weights: Array | None = None) -> Calibrator:
        """`target` [n] is how right each prediction was, or the index of the right label where logits are read. A row
        counts by its weight; None: all alike."""
        ...


CALIBRATORS: dict[str, Callable[..., CalibratorRecipe]] = {
    "isotonic": Isotonic,
    "platt": Platt,
    "beta": Beta,
    "histogram_binning": HistogramBinning,
    "temperature": Temperature,
    "min_max": MinMax,
}

FITTED_CALIBRATORS = (IsotonicMap, PlattMap, BetaMap, HistogramMap, TemperatureMap, MinMaxMap)
"""What an artifact may hold in the place of a calibrator."""

FOR_SHARES = frozenset({"isotonic", "min_max"})
"""Those that can be fitted to a share between right and wrong, such as the Jaccard similarity of label sets."""


def evidence(reads: str, u: Array, output: Output) -> Array:
    """What a calibrator reads, from the score `u` [n] and the output behind it."""
    if reads == "logits":
        return output.logits
    return 1 - u if reads == "probability" else -u


def fit_calibrator(recipe: CalibratorRecipe, u: Array, quality: Array, rows: LabelledOutput) -> Calibrator:
    """Fit on the scores `u` [n] of labelled rows, whose predictions were right to the degree of `quality` [n].

    Rows with weights count by them: a calibrator describes the traffic that they stand for. Rows whose score is unknown
    or infinite are left out: they are held. Raises if there are no others.
    """
    known = np.isfinite(u)
    if not known.all():
        if not known.any():
            raise UnknownScore(
                f"the score behind the confidence is unknown in all of {len(u)} rows; choose another one"
            )
        u, quality, rows = u[known], quality[known], rows.rows(known)
    if recipe.reads == "probability" and (u.min() < 0 or u.max() > 1):
        raise InvalidInput(
            f"{type(recipe).__name__} calibration reads 1 - score as a probability, and this score goes from"
            f" {u.min():.3g} to {u.max():.3g}; choose a score between 0 and 1, such as softmax_response,"
            " or the isotonic or platt calibrator, which take any"
        )
    target = rows.classes.astype(np.float64) if recipe.reads == "logits" else quality
    return recipe.fit(evidence(recipe.reads, u, rows.output), target, rows.weights)


def crossfitted(
    recipe: CalibratorRecipe, u: Array, quality: Array, rows: LabelledOutput, *, folds: int, rng: np.random.Generator
) -> Array:
    """Confidence [n] of each row under a calibrator that was fitted without the row's fold (XMLC section 4)."""
    member = rng.permutation(len(u)) % folds
    confidence = np.empty(len(u))
    for fold in range(folds):
        here = member == fold
        fitted = fit_calibrator(recipe, u[~here], quality[~here], rows.rows(~here))
        confidence[here] = fitted.confidence(evidence(fitted.reads, u[here], rows.output.rows(here)))
    return confidence
