"""One limit for the labels of a row, whichever and however many these are."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.closed_labels import LimitsRecipe
from demur.policies.promise import Promise
from demur.uncertainty.checks import Array, InvalidInput, Mask


@dataclass(frozen=True, kw_only=True)
class CommonLabelLimit:
    """A label is predicted if its probability reaches the limit."""

    limit: float
    missed_share: float | None = None
    """At most this share of the labels that hold is promised to be missed; None: nothing is."""

    n: int = 0
    """Rows that the promise rests on."""

    @property
    def promise(self) -> Promise | None:
        if self.missed_share is None:
            return None
        return Promise(
            share="of the labels that hold are not predicted", target=self.missed_share, delta=None, n=self.n
        )

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
        fitted = self.limits.fit(probabilities, targets)
        if fitted.missed_share is not None and fitted.limits[0] <= 0:
            held = np.asarray(targets, dtype=bool)
            absent = float((np.asarray(probabilities)[held] <= 0).mean()) if held.any() else 0.0
            raise InvalidInput(
                f"no limit misses as few as {fitted.missed_share:.2%} of the labels that hold: {absent:.2%} of them are"
                " not among the candidates; bring more candidates, or allow more"
            )
        return CommonLabelLimit(limit=float(fitted.limits[0]), missed_share=fitted.missed_share, n=fitted.n)
