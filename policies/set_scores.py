"""How unlikely each label is, as prediction sets count it: three scores, [n, C], higher for less likely labels.

A set holds the labels whose score is at most a quantile (`policies/quantiles.py`).
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from demur.uncertainty.checks import Array

OWN_SHARE = 0.5
"""The mean of the shares that Romano, Sesia & Candès (2020) draw."""


class SetScore(Protocol):
    """A score of labels."""

    @property
    def slack(self) -> float:
        """Scores that differ by less are equal."""
        ...

    def of(self, seen: Array) -> Array:
        """Return [n, C] from what the sets read: probabilities, or shares of samples. NaN stays NaN."""
        ...


@dataclass(frozen=True)
class ProbabilityComplement:
    """1 - p (Sadinle et al. 2019)."""

    slack: ClassVar[float] = 0.0

    def of(self, seen: Array) -> Array:
        return 1 - seen


@dataclass(frozen=True)
class UnnamedShare:
    """The share of samples that do not name the label (Testoni & Calixto)."""

    slack: ClassVar[float] = 1e-12

    def of(self, seen: Array) -> Array:
        return 1 - seen


@dataclass(frozen=True, kw_only=True)
class CumulativeProbability:
    """The sum of the probabilities of all more probable labels, and `own_share` of the label's own (Romano et al. 2020,
    APS), and `penalty` for each rank beyond `k_reg` (Angelopoulos et al. 2021, RAPS).

    The papers draw the share for each input, to make the coverage exact. Here it is the mean of those draws: with a
    draw the same input would be answered once and held another time.
    """

    penalty: float = 0.0
    k_reg: int = 0
    own_share: float = OWN_SHARE

    slack: ClassVar[float] = 0.0

    def of(self, seen: Array) -> Array:
        """Return [n, C]. Where labels are equally probable, the first is the more likely."""
        order = np.argsort(-seen, axis=1, kind="stable")
        own = np.take_along_axis(seen, order, axis=1)
        ranked = np.cumsum(own, axis=1) - (1 - self.own_share) * own
        ranked += self.penalty * np.maximum(np.arange(1, order.shape[1] + 1) - self.k_reg, 0)
        scores = np.empty_like(ranked)
        np.put_along_axis(scores, order, ranked, axis=1)
        return scores
