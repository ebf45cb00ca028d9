"""One limit for all labels, under which few of the labels that hold are missed (conformal risk control)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.label_share import ShareOf, controlled_label_share, labels_that_must_hold
from demur.policies.label_thresholds import LabelThresholds
from demur.policies.risk_control import conformal_risk_control
from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    Mask,
    fraction,
    indicators,
    one_of,
    real_number,
    same_length,
    unit_interval,
    whole_number,
)

LIMITS = np.arange(1000, -1, -1) / 1000
"""The limits that may be chosen, from the one that misses most to the one that misses nothing."""


@dataclass(frozen=True, kw_only=True)
class MissedLabelLimit:
    """`risk_control`: the highest limit under which at most a share `alpha` of the labels is missed.

    It is promised for rows drawn like the fitted ones, on average over draws of those, which is less than a bound.
    """

    alpha: float = 0.1
    share_of: ShareOf = "labels"
    """`labels`: of all labels that hold. `rows`: the mean over rows, of which one without labels misses nothing."""

    max_labels: int | None = None
    """The most labels that can hold for an input; by default all. Fewer labelled rows are needed if it is small."""

    def __post_init__(self) -> None:
        check_share(self.alpha, self.share_of, self.max_labels)

    def fit(self, probabilities: Any, targets: Any) -> LabelThresholds:
        found = fit_missed_share(probabilities, targets, self.alpha, self.share_of, self.max_labels)
        if found.limit is None:
            raise InvalidInput(f"{found.lack}, so no limit of probabilities can be promised; {found.remedy}")
        return LabelThresholds(
            limits=np.full(np.shape(targets)[1], found.limit),
            missed_share=self.alpha,
            n=found.n,
            share_of=self.share_of,
            max_labels=self.max_labels,
        )


@dataclass(frozen=True, kw_only=True)
class MissedShareFit:
    """A limit and what it rests on."""

    limit: float | None
    """None where the rows are too few for any."""

    n: int
    lack: str
    """What the rows are short of, if they are."""

    remedy: str


def check_share(alpha: Any, share_of: Any, max_labels: Any) -> None:
    """Raise unless these are settings of a promised share of labels."""
    fraction("alpha", real_number("alpha", alpha), open_low=True, open_high=True)
    one_of("share_of", share_of, ("labels", "rows"))
    if max_labels is not None:
        whole_number("max_labels", max_labels, least=1)


def fit_missed_share(
    probabilities: Any, targets: Any, alpha: float, share_of: ShareOf, max_labels: int | None
) -> MissedShareFit:
    """Return the highest limit at which at most a share `alpha` is missed, of all labels or as a mean over rows.

    `targets` [n, L] are 0/1. A row with more than `max_labels` raises: the promise rests on that number.
    """
    if share_of == "rows":
        found = conformal_risk_control(shares_missed(probabilities, targets, LIMITS), -LIMITS, alpha)
        n = len(np.asarray(targets))
        return MissedShareFit(
            limit=-found.setting if found.feasible else None,
            n=n,
            lack=f"{n} rows are too few to promise that at most {alpha:.2%} of the labels are missed",
            remedy=f"{int(np.ceil(1 / alpha)) - 1} would do",
        )
    p, truth = _checked(probabilities, targets)
    most = truth.shape[1] if max_labels is None else max_labels
    per_row = truth.sum(axis=1)
    if per_row.max() > most:
        raise InvalidInput(f"max_labels is {most}, and a labelled row has {per_row.max()} labels; raise max_labels")
    own = np.sort(p[truth])
    limited = controlled_label_share(
        np.searchsorted(own, LIMITS, side="left").astype(np.float64), float(len(own)), -LIMITS, alpha, most
    )
    needed = labels_that_must_hold(alpha, most)
    return MissedShareFit(
        limit=-limited.limit if limited.feasible else None,
        n=len(p),
        lack=f"in {len(p)} rows {len(own)} labels hold, too few to promise that at most {alpha:.2%} of them are missed",
        remedy=f"{needed} would do if no input can have more than {most} labels: label more, or lower max_labels if"
        " that is true",
    )


def shares_missed(probabilities: Any, targets: Any, limits: Array) -> Array:
    """[n, J]: of the labels that hold for a row of 0/1 `targets` [n, L], the share below each of descending `limits`.

    Nothing is missed where no label holds.
    """
    p, truth = _checked(probabilities, targets)
    row, label = np.nonzero(truth)
    # a label is missed by every limit above its probability: by the first `reach` of the descending ones
    reach = len(limits) - np.searchsorted(limits[::-1], p[row, label], side="right")
    held = np.bincount(row, minlength=len(p))
    missed = np.zeros((len(p), len(limits) + 1))
    np.add.at(missed, (row, np.zeros_like(row)), 1.0)
    np.add.at(missed, (row, reach), -1.0)
    return np.asarray(np.cumsum(missed, axis=1)[:, :-1] / np.maximum(held, 1)[:, None])


def _checked(probabilities: Any, targets: Any) -> tuple[Array, Mask]:
    p, truth = unit_interval("probabilities", probabilities, ndim=2), indicators("targets", targets)
    same_length(probabilities=p, targets=truth)
    if p.shape != truth.shape:
        raise InvalidInput(f"probabilities are {p.shape}, targets {truth.shape}")
    return p, np.asarray(truth, dtype=bool)
