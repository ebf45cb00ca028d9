"""One limit for all labels, under which few of the labels that hold are missed (conformal risk control)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.label_thresholds import LabelThresholds
from demur.policies.risk_control import conformal_risk_control
from demur.uncertainty.checks import Array, InvalidInput, fraction, indicators, real_number, same_length, unit_interval

LIMITS = np.arange(1000, -1, -1) / 1000
"""The limits that may be chosen, from the one that misses most to the one that misses nothing."""


@dataclass(frozen=True, kw_only=True)
class MissedLabelLimit:
    """`risk_control`: the highest limit at which the expected share of a row's labels that are missed is at most
    `alpha`, on rows drawn like the fitted ones: on average over draws of those, which promises less than a bound."""

    alpha: float = 0.1

    def __post_init__(self) -> None:
        fraction("alpha", real_number("alpha", self.alpha), open_low=True, open_high=True)

    def fit(self, probabilities: Any, targets: Any) -> LabelThresholds:
        limit, n = fit_missed_share(probabilities, targets, self.alpha)
        if limit is None:
            raise InvalidInput(
                f"{n} rows are too few to promise that at most {self.alpha:.2%} of the labels are missed;"
                f" {int(np.ceil(1 / self.alpha)) - 1} would do"
            )
        return LabelThresholds(limits=np.full(np.shape(targets)[1], limit), missed_share=self.alpha, n=n)


def fit_missed_share(probabilities: Any, targets: Any, alpha: float) -> tuple[float | None, int]:
    """Return the highest limit at which the expected share of a row's labels that are missed is at most `alpha`, and
    the number of rows; None where these are too few for any limit."""
    missed = shares_missed(probabilities, targets, LIMITS)
    found = conformal_risk_control(missed, -LIMITS, alpha)
    return -found.setting if found.feasible else None, len(missed)


def shares_missed(probabilities: Any, targets: Any, limits: Array) -> Array:
    """[n, J]: of the labels that hold for a row of 0/1 `targets` [n, L], the share below each of descending `limits`.

    Nothing is missed where no label holds.
    """
    p, truth = unit_interval("probabilities", probabilities, ndim=2), indicators("targets", targets)
    same_length(probabilities=p, targets=truth)
    if p.shape != truth.shape:
        raise InvalidInput(f"probabilities are {p.shape}, targets {truth.shape}")
    row, label = np.nonzero(truth)
    # a label is missed by every limit above its probability: by the first `reach` of the descending ones
    reach = len(limits) - np.searchsorted(limits[::-1], p[row, label], side="right")
    held = np.bincount(row, minlength=len(p))
    missed = np.zeros((len(p), len(limits) + 1))
    np.add.at(missed, (row, np.zeros_like(row)), 1.0)
    np.add.at(missed, (row, reach), -1.0)
    return np.asarray(np.cumsum(missed, axis=1)[:, :-1] / np.maximum(held, 1)[:, None])
