"""The calibrators that can be configured: maps from a score to a probability of being right."""

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np

from demur.uncertainty.beta import Beta, BetaMap
from demur.uncertainty.checks import Array, InvalidInput, Mask, UnknownScore
from demur.uncertainty.class_calibration import Dirichlet, DirichletMap, VectorScaling, VectorScalingMap
from demur.uncertainty.correctness_calibrator import Correctness, CorrectnessMap
from demur.uncertainty.histogram_binning import HistogramBinning, HistogramMap
from demur.uncertainty.isotonic import Isotonic, IsotonicMap
from demur.uncertainty.min_max import MinMax, MinMaxMap
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.platt import Platt, PlattMap
from demur.uncertainty.temperature import Temperature, TemperatureMap
from demur.uncertainty.venn_abers import VennAbers, VennAbersMap

Reads = Literal["score", "probability", "logits", "answers", "classes"]
"""What a calibrator takes as evidence of being right: the negated score; 1 - score, where that is a probability; or,
whatever the score, the logits, or the probabilities beside the label that was given. It learns whether that label is
right from `answers`, and which label is right from `classes`."""

OF_SCORES = frozenset({"score", "probability"})
"""What calibrators read that go by the score: their confidence falls as the score rises, and never turns."""

OF_ANSWERS = frozenset({"answers", "classes"})
"""What calibrators read that may change the order of rows."""


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
        """`target` [n] is how right each prediction was, or the index of the right label where logits or classes are
        read. A row counts by its weight; None: all alike."""
        ...


CALIBRATORS: dict[str, Callable[..., CalibratorRecipe]] = {
    "isotonic": Isotonic,
    "platt": Platt,
    "beta": Beta,
    "histogram_binning": HistogramBinning,
    "temperature": Temperature,
    "min_max": MinMax,
    "correctness": Correctness,
    "vector": VectorScaling,
    "dirichlet": Dirichlet,
    "venn_abers": VennAbers,
}

FITTED_CALIBRATORS = (
    *(IsotonicMap, PlattMap, BetaMap, HistogramMap, TemperatureMap, MinMaxMap),
    *(CorrectnessMap, VectorScalingMap, DirichletMap, VennAbersMap),
)
"""What an artifact may hold in the place of a calibrator."""

FOR_SHARES = frozenset({"isotonic", "min_max"})
"""Those that can be fitted to a share between right and wrong, such as the Jaccard similarity of label sets."""


def evidence(reads: str, u: Array, output: Output, predicted: Mask | None = None) -> Array:
    """What a calibrator reads, from the score `u` [n] and the output behind it, of which `predicted` [n, C] is given;
    None: the most probable label is."""
    if reads == "logits":
        return output.logits
    if reads in OF_ANSWERS:
        p = output.probabilities
        given = p.argmax(axis=1)[:, np.newaxis] == np.arange(p.shape[1]) if predicted is None else predicted
        return np.stack([p, given], axis=1)
    return 1 - u if reads == "probability" else -u


def fit_calibrator(
    recipe: CalibratorRecipe, u: Array, quality: Array, rows: LabelledOutput, predicted: Mask | None = None
) -> Calibrator:
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
        predicted = None if predicted is None else predicted[known]
    if recipe.reads == "probability" and (u.min() < 0 or u.max() > 1):
        raise InvalidInput(
            f"{type(recipe).__name__} calibration reads 1 - score as a probability, and this score goes from"
            f" {u.min():.3g} to {u.max():.3g}; choose a score between 0 and 1, such as softmax_response,"
            " or the isotonic or platt calibrator, which take any"
        )
    target = rows.classes.astype(np.float64) if recipe.reads in ("logits", "classes") else quality
    read = evidence(recipe.reads, u, rows.output, predicted)
    if isinstance(recipe, Correctness):
        return recipe.fit(read, target, rows.weights, None if rows.clusters is None else rows.clusters.tolist())
    return recipe.fit(read, target, rows.weights)


def crossfitted(
    recipe: CalibratorRecipe,
    u: Array,
    quality: Array,
    rows: LabelledOutput,
    *,
    folds: int,
    rng: np.random.Generator,
    predicted: Mask | None = None,
) -> Array:
    """Confidence [n] of each row under a calibrator that was fitted without the row's fold (XMLC section 4)."""
    member = rng.permutation(len(u)) % folds
    confidence = np.empty(len(u))
    for fold in range(folds):
        here = member == fold
        others, own = (None if predicted is None else predicted[part] for part in (~here, here))
        fitted = fit_calibrator(recipe, u[~here], quality[~here], rows.rows(~here), others)
        confidence[here] = fitted.confidence(evidence(fitted.reads, u[here], rows.output.rows(here), own))
    return confidence
