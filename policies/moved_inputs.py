"""Labelled rows of before that stand for the traffic of now, where only the inputs have changed (METHODS 10.12).

The weights are fitted on rows that certify nothing: the calibrator's, and unlabelled ones of the traffic.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from demur.policies.covariate_shift import WeightModel, effective_number, fit_weight_model
from demur.policies.weight_balance import ComparedRows, Imbalance, imbalance
from demur.uncertainty.checks import Array, InvalidInput, Mask
from demur.uncertainty.output import Output

LEAST_EFFECTIVE = 50.0
"""With rows that tell as much as fewer of equal weight, nothing is promised."""

MOST_WEIGHT = 20.0

MOST_UNLIKE = 0.1
"""A larger share of the traffic that no weight makes up for, and nothing is promised. Where old and new rows lie wholly
apart, clipped weights may look as if they were worth many rows."""

MOST_COMPONENTS = 10
"""Principal components in the place of a wider embedding."""

FEWEST, PER_FEATURE = 100, 30
"""Rows of the traffic, and of before, that weights are fitted on at least, and for each feature: of 60 and 60 rows with
ten features a promise at 10% was broken by 28 of 100 fits, because the weights themselves were wrong."""

WeighBy = Literal["confidence", "embedding"]
Confidence = Callable[[Output], Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class CurrentTraffic:
    """What the model says about inputs of the traffic of now, of which nobody knows what is right."""

    output: Output
    weigh_by: WeighBy = "confidence"


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureWeights:
    """From the output of a model to the weight of each row."""

    by: str
    model: WeightModel
    mean: Array | None = None
    """[d], of a wide embedding; None where features are taken as they are."""

    components: Array | None = None
    """[d, k], its principal components."""

    def features(self, output: Output, confidence: Confidence) -> Array:
        """Return [n, k]; NaN where a row has none."""
        rows = _features(self.by, output, confidence)
        return rows if self.mean is None or self.components is None else (rows - self.mean) @ self.components

    def of(self, output: Output, confidence: Confidence) -> Array:
        """Return the weights [n]; the largest for a row without features."""
        rows = self.features(output, confidence)
        known, weights = _known(rows), np.full(len(rows), self.model.max_weight)
        if known.any():
            weights[known] = self.model.of(rows[known])
        return weights


@dataclass(frozen=True, kw_only=True, eq=False)
class RowWeights:
    """How much each of the rows counts that are to certify a promise."""

    weights: Array
    """[n], 0 where a row has no features."""

    max_weight: float
    n_effective: float
    share_clipped: float
    n_reference: int
    n_current: int
    share_unlike: float
    """Share of the traffic that is rarer among the old rows than the largest weight makes up for."""

    by: str
    weighting: FeatureWeights
    """With the largest weight that was declared."""

    imbalance: Imbalance | None = None
    """Where the weighted rows are unlike the traffic, beyond chance."""

    @property
    def wrong(self) -> str:
        """Why the weights are wrong, in words; empty where nothing shows it."""
        return "" if self.imbalance is None else self.imbalance.why


def row_weights(current: CurrentTraffic, reference: Output, certifying: Output, confidence: Confidence) -> RowWeights:
    """Return the weights of the `certifying` rows, from what tells the current traffic from the `reference` rows.

    The largest weight that may be is declared from the reference rows alone: a bet loses sharpness with it.
    """
    before, now = (_features(current.weigh_by, one, confidence) for one in (reference, current.output))
    known_before, known_now = _known(before), _known(now)
    fewest = max(FEWEST, PER_FEATURE * min(before.shape[1], MOST_COMPONENTS))
    for name, known in (("rows of before", known_before), ("rows of the traffic", known_now)):
        if known.sum() < fewest:
            raise InvalidInput(
                f"{int(known.sum())} {name} have a usable {current.weigh_by}; weights take {fewest} at least"
            )
    mean = components = None
    if before.shape[1] > MOST_COMPONENTS:
        mean, components = _principal(np.vstack([before[known_before], now[known_now]]))
        before, now = (before - mean) @ components, (now - mean) @ components
    model = fit_weight_model(before[known_before], now[known_now], max_weight=MOST_WEIGHT)
    fitted = FeatureWeights(by=current.weigh_by, model=model, mean=mean, components=components)
    most = float(min(MOST_WEIGHT, model.of(before[known_before]).max()))
    rows = fitted.features(certifying, confidence)
    usable = _known(rows)
    there, here = (
        ComparedRows(features=one[known], confidence=_features("confidence", output, confidence)[known, 0])
        for one, known, output in ((now, known_now, current.output), (rows, usable, certifying))
    )
    weights, raw = np.zeros(len(rows)), np.zeros(len(rows))
    if usable.any():
        raw[usable] = model.raw(rows[usable])
        weights[usable] = np.minimum(raw[usable], most)
    return RowWeights(
        weights=weights,
        max_weight=most,
        n_effective=effective_number(weights),
        share_clipped=float((raw > most).mean()),
        n_reference=int(known_before.sum()),
        n_current=int(known_now.sum()),
        share_unlike=float((model.raw(now[known_now]) > most).mean()),
        by=current.weigh_by,
        weighting=replace(fitted, model=replace(model, max_weight=most)),
        imbalance=imbalance(before[known_before], there, here, most) if usable.any() else None,
    )


def _features(by: str, output: Output, confidence: Confidence) -> Array:
    """[n, d], NaN where the output of a row is not usable."""
    usable = output.usable()
    if by == "embedding":
        if output.embedding is None:
            raise InvalidInput("rows are to be weighed by embedding, and the model gives none; weigh by confidence")
        return np.where(usable[:, None], output.embedding, np.nan)
    rows = np.full((len(output), 1), np.nan)
    if usable.any():
        rows[usable, 0] = confidence(output if usable.all() else output.rows(usable))
    return rows


def _known(features: Array) -> Mask:
    return np.asarray(np.isfinite(features).all(axis=1))


def _principal(rows: Array) -> tuple[Array, Array]:
    """The mean [d], and the first principal components [d, k]."""
    mean = rows.mean(axis=0)
    _, _, directions = np.linalg.svd(rows - mean, full_matrices=False)
    return mean, np.asarray(directions[:MOST_COMPONENTS].T)
