"""Whether label sets miss as small a mean share of a row's labels as they promise, over random halves of X-rays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.real.predictions import Index
from benchmarks.real.set_kinds import ALPHAS
from benchmarks.real.set_promises import OURS, standard_error
from benchmarks.real.splits import Split
from demur.policies.missed_labels import LIMITS, shares_missed
from demur.policies.risk_control import conformal_risk_control
from demur.uncertainty.checks import Array, Mask

HUNDREDTHS = LIMITS[::10][1:]
"""Those of our thousandths that MAPIE tries unless told otherwise, 0.99 to 0."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MissedCase:
    """`n` rows whose labels each hold or not."""

    data: str
    probabilities: Array
    """[n, L]"""

    truth: Mask
    """[n, L]"""

    together: Index
    """[n], rows of one number are never parted."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MissedOutcome:
    """What one way to choose the limit did at one target, over S splits."""

    data: str
    who: str
    alpha: float
    limits: Array
    """[S]"""

    missed: Array
    """[S], of the labels that hold for a test row, the mean share below the limit."""

    size: Array
    """[S], labels predicted for a test row."""

    @property
    def kept(self) -> bool:
        """Whether the mean over splits is at most alpha, but for three standard errors of chance."""
        return bool(self.missed.mean() - 3 * standard_error(self.missed) <= self.alpha)


PeerLimits = Callable[[Index], Array]
"""From the fitted rows to the limits [A] above which a label is predicted."""


def measure(case: MissedCase, parts: Sequence[Split], peers: Mapping[str, PeerLimits]) -> list[MissedOutcome]:
    """`MissedLabelLimit` takes the rows alone; here the shares that rows miss are counted once for all splits."""
    shares = shares_missed(case.probabilities, case.truth, LIMITS)
    chosen = {OURS: np.array([_limits(shares[part.fit], LIMITS) for part in parts])}
    for name, limits in peers.items():
        chosen[f"{OURS}, hundredths"] = np.array([_limits(shares[part.fit, 10::10], HUNDREDTHS) for part in parts])
        chosen[name] = np.array([limits(part.fit) for part in parts])
    return [
        _judged(case, parts, who, alpha, limits[:, column], strict=who in peers)
        for who, limits in chosen.items()
        for column, alpha in enumerate(ALPHAS)
    ]


def _limits(shares: Array, limits: Array) -> list[float]:
    return [-conformal_risk_control(shares, -limits, alpha).setting for alpha in ALPHAS]


def _judged(
    case: MissedCase, parts: Sequence[Split], who: str, alpha: float, limits: Array, *, strict: bool
) -> MissedOutcome:
    missed, size = [], []
    for part, limit in zip(parts, limits, strict=True):
        p, truth = case.probabilities[part.test], case.truth[part.test]
        predicted = p > limit if strict else p >= limit
        missed.append(((truth & ~predicted).sum(axis=1) / np.maximum(truth.sum(axis=1), 1)).mean())
        size.append(predicted.sum(axis=1).mean())
    return MissedOutcome(
        data=case.data, who=who, alpha=alpha, limits=limits, missed=np.array(missed), size=np.array(size)
    )
