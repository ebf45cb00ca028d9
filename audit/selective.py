"""How well a score ranks predictions for rejection: risk-coverage curve, its area, PRR (METHODS 5.1).

`u` [n] is higher when the model is less sure. Rows are taken from the surest on; rows that tie each carry the mean
of their tie group, which is the exact expectation over random tie-breaking and makes every number here
independent of row order.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncertainty.checks import Array, InvalidInput, finite, fraction, same_length, snapped_floor

Ties = Literal["mean", "stable"]


@dataclass(frozen=True, kw_only=True)
class Areas:
    """Areas under the retained-quality curve, for this score, for a perfect one and for chance."""

    model: float
    oracle: float
    random: float


@dataclass(frozen=True, kw_only=True)
class RiskCoverage:
    """Mean risk of the surest k rows, for k = 1..n."""

    coverage: Array
    risk: Array


def prefix_means(values: Array, u: Array, *, ties: Ties = "mean") -> Array:
    """Return [n]: the mean of `values` over the k surest rows, k = 1..n."""
    if ties not in ("mean", "stable"):
        raise InvalidInput(f"ties is {ties!r}; it is 'mean' or 'stable'")
    order = np.argsort(u, kind="stable")
    ranked = values[order]
    if ties == "mean":
        starts = np.flatnonzero(np.diff(u[order], prepend=np.nan) != 0)  # NaN != 0: the first row starts a group
        sizes = np.diff(np.append(starts, len(u)))
        ranked = np.repeat(np.add.reduceat(ranked, starts) / sizes, sizes)
    return np.asarray(np.cumsum(ranked) / np.arange(1, len(u) + 1))


def rc_curve(risks: Any, u: Any, *, ties: Ties = "mean") -> RiskCoverage:
    """Risk-coverage curve (El-Yaniv & Wiener 2010) of `risks` [n], 0/1 errors or any loss."""
    loss, scores = _pair("risks", risks, u)
    n = len(loss)
    return RiskCoverage(coverage=np.arange(1, n + 1) / n, risk=prefix_means(loss, scores, ties=ties))


def thinned(n: int, points: int) -> NDArray[np.intp]:
    """Indices of at most `points` of `n` places on a curve, evenly spaced, the ends included."""
    return np.unique(np.linspace(0, n - 1, min(points, n)).astype(np.intp))


def rc_auc(risks: Any, u: Any, *, ties: Ties = "mean", rule: Literal["mean", "sum", "trapezoid"] = "mean") -> float:
    """Area under the risk-coverage curve; lower is better.

    `mean` is (1/n) sum_k; `sum` leaves out 1/n, as the formula is printed; `trapezoid` integrates over coverages
    1/n..1 and is the risk itself when n = 1.
    """
    curve = rc_curve(risks, u, ties=ties)
    if rule == "mean":
        return float(curve.risk.mean())
    if rule == "sum":
        return float(curve.risk.sum())
    if rule == "trapezoid":
        return float(np.trapezoid(curve.risk, curve.coverage) if len(curve.risk) > 1 else curve.risk[0])
    raise InvalidInput(f"rule is {rule!r}; it is 'mean', 'sum' or 'trapezoid'")


def prr_areas(quality: Any, u: Any, *, ties: Ties = "mean", max_rejection: float = 1.0) -> Areas:
    """The three areas behind PRR, over the coverages left by rejecting at most `max_rejection` of the rows."""
    worth, scores = _pair("quality", quality, u)
    fraction("max_rejection", max_rejection, open_low=True)
    n = len(worth)
    rejected = snapped_floor(max_rejection * n)
    if rejected == 0:
        return Areas(model=np.nan, oracle=np.nan, random=np.nan)
    kept = slice(n - rejected, n)
    return Areas(
        model=float(prefix_means(worth, scores, ties=ties)[kept].mean()),
        oracle=float(prefix_means(worth, -worth)[kept].mean()),
        random=float(worth.mean()),  # exact: a random order keeps the mean at every coverage
    )


def prr(quality: Any, u: Any, *, ties: Ties = "mean", max_rejection: float = 1.0) -> float:
    """Prediction rejection ratio: 1 for a perfect ranking, 0 for chance, below 0 for worse than chance.

    `quality` [n] is 1 for right and 0 for wrong, or any number that is better when higher. NaN when all qualities
    are equal (MADE; Malinin & Gales 2021, in the retained-mean version).
    """
    areas = prr_areas(quality, u, ties=ties, max_rejection=max_rejection)
    worth = finite("quality", quality)
    if worth.min() == worth.max():
        return np.nan
    return (areas.model - areas.random) / (areas.oracle - areas.random)


def _pair(name: str, values: Any, u: Any) -> tuple[Array, Array]:
    numbers, scores = finite(name, values), finite("u", u)
    same_length(**{name: numbers, "u": scores})
    return numbers, scores
