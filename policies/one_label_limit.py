"""One limit for the labels of a row, whichever and however many these are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.closed_labels import LimitsRecipe
from demur.policies.label_share import ShareOf
from demur.policies.label_thresholds import missed_labels_promise
from demur.policies.missed_labels import MissedLabelLimit
from demur.policies.promise import Promise
from demur.uncertainty.checks import Array, InvalidInput, Mask


@dataclass(frozen=True, kw_only=True)
class CommonLabelLimit:
    """A label is predicted if its probability reaches the limit."""

    limit: float
    missed_share: float | None = None
    """At most this share of labels is promised to be missed; None: nothing is."""

    n: int = 0
    """Rows that the promise rests on."""

    share_of: ShareOf = "rows"
    """What the share is taken of: all labels that hold, or each row's own. Older artifacts have the mean over rows."""

    max_labels: int | None = None
    """The most labels that an input can have, where that was declared."""

    @property
    def promise(self) -> Promise | None:
        if self.missed_share is None:
            return None
        return missed_labels_promise(self.missed_share, self.n, self.share_of, self.max_labels)

    def of(self, probabilities: Array) -> Mask:
        """Return [n, K], True where the label is predicted. A slot without a label has the probability 0: none is."""
        return np.asarray((probabilities >= self.limit) & (probabilities > 0))


@dataclass(frozen=True, kw_only=True)
class OneLabelLimit:
    """For rows that name some candidates among very many labels, each row others."""

    limits: LimitsRecipe
    """The way to come by the limit: one that gives all labels the same."""

    @property
    def alpha(self) -> float | None:
        return self.limits.alpha

    def fit(self, probabilities: Any, targets: Any) -> CommonLabelLimit:
        limits = self.limits
        if isinstance(limits, MissedLabelLimit) and limits.share_of == "labels" and limits.max_labels is None:
            raise InvalidInput(
                "risk_control has no max_labels: say how many labels an input can have at most, which among very many"
                " labels nothing else tells; or write `share_of: rows` for the mean over rows"
            )
        fitted = limits.fit(probabilities, targets)
        if fitted.missed_share is not None and fitted.limits[0] <= 0:
            held = np.asarray(targets, dtype=bool)
            absent = float((np.asarray(probabilities)[held] <= 0).mean()) if held.any() else 0.0
            raise InvalidInput(
                f"no limit misses as few as {fitted.missed_share:.2%} of the labels that hold: {absent:.2%} of them are"
                " not among the candidates; bring more candidates, or allow more"
            )
        return CommonLabelLimit(
            limit=float(fitted.limits[0]),
            missed_share=fitted.missed_share,
            n=fitted.n,
            share_of=fitted.share_of,
            max_labels=fitted.max_labels,
        )
