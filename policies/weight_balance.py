"""Whether weighted rows are like the traffic that they stand for, as far as features and confidence show it.

Weights of the wrong form break a promise silently. Where the spread of the inputs has grown, which weights that rise
along a line cannot say, a promise at 10% was broken in nine fits of ten. So means, spreads, products and shares of the
weighted rows are compared with those of the traffic. The rows that are compared had no part in the fit of the weights:
rows that certify the promise never have, and the traffic is taken in parts, each with weights that were fitted without
it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from demur.policies.covariate_shift import WeightModel, fit_weight_model
from demur.uncertainty.checks import Array

FOLDS = 5

BY_CHANCE = 0.05
"""In so many fits with right weights, at most, chance alone may look like a difference."""

MOST_SPREADS = 3.0
"""A value that lies further out counts as this many standard deviations, so that a single row decides nothing."""

CUTS = (0.25, 0.5, 0.75)
"""Quantiles of the traffic at which shares are compared."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparedRows:
    """Rows as weights see them, in the same columns."""

    features: Array
    """[n, d]."""

    confidence: Array
    """[n]."""

    def rows(self, kept: Array) -> "ComparedRows":
        return ComparedRows(features=self.features[kept], confidence=self.confidence[kept])


@dataclass(frozen=True, kw_only=True)
class Imbalance:
    """What differs most between the weighted rows and the traffic, beyond chance."""

    what: str
    weighted: float
    current: float
    p: float
    """How probable so large a difference is by chance in any of the things that are compared, at most."""

    @property
    def why(self) -> str:
        return (
            f"the weighted rows are unlike the new traffic: {self.what} is {self.weighted:.3g} among them and"
            f" {self.current:.3g} in the traffic, so the weights are wrong; weigh by what has changed"
            " (`calibration: {weigh_by: embedding}` or `confidence`), or label rows of the new traffic"
        )


def imbalance(reference: Array, current: ComparedRows, certifying: ComparedRows, max_weight: float) -> Imbalance | None:
    """Return where `certifying` rows, weighted, are unlike the `current` ones; None where chance explains it all.

    Weights are fitted on features of the `reference` [n, d] and the traffic. A difference that no column shows, such as
    one in what is right for an input, is not seen.
    """
    rng = np.random.default_rng(0)
    fold = rng.permutation(np.arange(len(current.confidence)) % FOLDS)
    names, of_current, of_certifying = _columns(current, certifying)
    found, weights = np.zeros(len(names)), np.zeros(len(certifying.confidence))
    for one in range(FOLDS):
        model = fit_weight_model(reference, current.features[fold != one], max_weight=max_weight)
        w = model.of(certifying.features)
        found += (w @ of_certifying / w.sum() - of_current[fold == one].mean(axis=0)) / FOLDS
        weights += w / w.sum() / FOLDS
    middle = weights @ of_certifying
    away = weights[:, None] * (of_certifying - middle)
    variance = (away**2).sum(axis=0) + of_current.var(axis=0) / len(of_current)
    variance += _of_fit(reference, current, certifying, away, max_weight)
    z = np.abs(found) / np.sqrt(np.maximum(variance, 1e-300))
    z[variance < 1e-16] = 0.0  # a column that is the same everywhere
    worst = int(z.argmax())
    p = float(min(1.0, len(names) * 2 * ndtr(-z[worst])))
    if p > BY_CHANCE:
        return None
    return Imbalance(what=names[worst], weighted=float(middle[worst]), current=float(of_current[:, worst].mean()), p=p)


def _of_fit(reference: Array, current: ComparedRows, certifying: ComparedRows, away: Array, max_weight: float) -> Array:
    """[k], the variance that each weighted mean has because the weights are estimated (by the delta method)."""
    model: WeightModel = fit_weight_model(reference, current.features, max_weight=max_weight)
    both = np.vstack([reference, current.features])
    spread = np.where(both.std(axis=0) > 0, both.std(axis=0), 1.0)
    z = np.column_stack([np.ones(len(both)), (both - both.mean(axis=0)) / spread])
    odds = np.log(len(current.features) / len(reference))
    p = 1 / (1 + np.exp(-(np.log(np.maximum(model.raw(both), 1e-300)) + odds)))
    information = (z * (p * (1 - p))[:, None]).T @ z
    covariance = np.linalg.pinv(information)[1:, 1:]
    slopes = away.T @ ((certifying.features - both.mean(axis=0)) / spread)  # how each mean moves with the coefficients
    return np.asarray(np.einsum("kd,de,ke->k", slopes, covariance, slopes))


def _columns(current: ComparedRows, certifying: ComparedRows) -> tuple[list[str], Array, Array]:
    """What is compared: names [k], and values [m, k] and [n, k]."""
    names, now, then = [], [], []
    for name, one, other in _of_each(current, certifying):
        names.append(name)
        now.append(one)
        then.append(other)
    return names, np.column_stack(now), np.column_stack(then)


def _of_each(current: ComparedRows, certifying: ComparedRows) -> Iterator[tuple[str, Array, Array]]:
    d = current.features.shape[1]
    is_confidence = d == 1 and np.array_equal(current.features[:, 0], current.confidence)
    pairs = [(f"number {j + 1} of the embedding", current.features[:, j], certifying.features[:, j]) for j in range(d)]
    if is_confidence:
        pairs = []
    pairs.append(("the confidence", current.confidence, certifying.confidence))
    standard = []
    for name, now, then in pairs:
        middle, spread = now.mean(), now.std() or 1.0
        a, b = (np.clip((one - middle) / spread, -MOST_SPREADS, MOST_SPREADS) for one in (now, then))
        standard.append((name, a, b))
        yield f"the mean of {name}", middle + spread * a, middle + spread * b
        yield f"the spread of {name} (its variance, by that of the traffic)", a**2, b**2
        for cut in np.unique(np.quantile(now, CUTS)):
            yield f"the share of rows in which {name} is at most {cut:.3g}", (now <= cut) * 1.0, (then <= cut) * 1.0
    for j, (name, a, b) in enumerate(standard):
        for other, c, e in standard[:j]:
            yield f"how {other} and {name} go together (their correlation)", a * c, b * e
