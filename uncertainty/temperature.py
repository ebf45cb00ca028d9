"""Temperature scaling: one divisor for all logits (Guo et al. 2017)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax

from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    class_indices,
    finite,
    outcomes,
    real_number,
    relative_weights,
    same_length,
)

COLDEST, HOTTEST = 0.01, 100.0


@dataclass(frozen=True, kw_only=True)
class TemperatureMap:
    """Divide by `temperature`: above 1 takes confidence away, below 1 adds some. The order of labels stays."""

    reads: ClassVar[str] = "logits"

    temperature: float

    def of_classes(self, logits: Array) -> Array:
        """Probabilities [n, C] of labels that exclude each other."""
        return np.asarray(softmax(_divided(logits, self.temperature), axis=-1))

    def of_labels(self, logits: Array) -> Array:
        """Probabilities, in the shape of `logits`, of labels that each hold or not."""
        return np.asarray(expit(_divided(logits, self.temperature)))

    def confidence(self, evidence: Array) -> Array:
        """Probability [n] of the most probable label, from the logits [n, C]."""
        return np.asarray(self.of_classes(evidence).max(axis=-1))


@dataclass(frozen=True, kw_only=True)
class Temperature:
    """The calibrator as it is configured. It reads the logits, whatever the score."""

    reads: ClassVar[str] = "logits"

    t_min: float = COLDEST
    t_max: float = HOTTEST

    def __post_init__(self) -> None:
        _check_range(self.t_min, self.t_max)

    def fit(self, evidence: Array, target: Array, weights: Array | None = None) -> TemperatureMap:
        """`evidence` is the logits [n, C], `target` the index of the right label [n]."""
        return fit_temperature(evidence, target, weights=weights, t_min=self.t_min, t_max=self.t_max)


def fit_temperature(
    logits: Any, labels: Any, *, weights: Any = None, t_min: float = COLDEST, t_max: float = HOTTEST
) -> TemperatureMap:
    """The temperature in [t_min, t_max] under which the right `labels` [n], each counting by its weight, are most
    likely, from `logits` [n, C]."""
    z = finite("fit_logits", logits, ndim=2)
    right = class_indices("fit_labels", labels, classes=z.shape[1])
    w = relative_weights(weights, fit_logits=z, fit_labels=right)
    share = w / w.sum()
    _check_range(t_min, t_max)
    lead = z - z[np.arange(len(z)), right][:, None]  # over the right label, and small losses stay small numbers

    def slope(inverse: float) -> float:  # of the mean loss, in the inverse temperature, in which it is convex
        return float(share @ (softmax(lead * inverse, axis=1) * lead).sum(axis=1))

    return _best(lead, slope, t_min, t_max)


def fit_binary_temperature(
    logits: Any, targets: Any, *, t_min: float = COLDEST, t_max: float = HOTTEST
) -> TemperatureMap:
    """Fit a temperature for single logits [n] against 0/1 `targets` [n]: the two labels have the logits (0, z)."""
    z, y = finite("fit_logits", logits), outcomes("fit_targets", targets)
    same_length(fit_logits=z, fit_targets=y)
    _check_range(t_min, t_max)

    lead = np.where(y == 1, -z, z)

    def slope(inverse: float) -> float:
        return float(np.mean(expit(lead * inverse) * lead))

    return _best(lead, slope, t_min, t_max)


def _best(lead: Array, slope: Callable[[float], float], t_min: float, t_max: float) -> TemperatureMap:
    """Where the slope passes 0, which never falls in the inverse temperature, or the end towards which it points.

    `lead` is what labels have over the right one.
    """
    if not lead.any():  # every temperature is as good, and 1 changes nothing
        return TemperatureMap(temperature=float(np.clip(1.0, t_min, t_max)))
    if lead.max() <= 0:  # the colder, the better, even where the slope is too small for a number
        return TemperatureMap(temperature=float(t_min))
    if slope(1 / t_max) >= 0:
        return TemperatureMap(temperature=float(t_max))
    if slope(1 / t_min) <= 0:
        return TemperatureMap(temperature=float(t_min))
    from scipy.optimize import brentq  # half a second to load, which only who fits should wait for

    return TemperatureMap(
        temperature=1 / float(brentq(slope, 1 / t_max, 1 / t_min, xtol=1e-14, rtol=1e-13, maxiter=500))
    )


def _divided(logits: Array, temperature: float) -> Array:
    return np.asarray(logits, dtype=np.float64) / temperature


def _check_range(t_min: Any, t_max: Any) -> None:
    if not 0 < real_number("t_min", t_min) <= real_number("t_max", t_max):
        raise InvalidInput(f"t_min {t_min} and t_max {t_max}: 0 < t_min <= t_max is needed")
