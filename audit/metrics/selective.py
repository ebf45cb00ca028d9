"""How well a score ranks predictions for rejection: risk-coverage curve, its areas, PRR (METHODS 5.1).

`u` [n] is higher when the model is less sure; a `Ranking` of it will do, so that several metrics share one sort. Rows
are taken from the surest on; rows that tie each carry the mean of their tie group, which is the exact expectation over
random tie-breaking and makes every number here independent of row order.
"""

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.ranking import Ranking, Ties, inner, running_means
from demur.uncertainty.checks import Array, degrees, fraction, one_of, same_length, snapped_floor, whole_number

Rule = Literal["mean", "sum", "trapezoid"]


@dataclass(frozen=True, kw_only=True)
class Areas:
    """Areas under the retained-quality curve, for this score, for a perfect one and for chance."""

    model: float
    oracle: float
    random: float

    @property
    def ratio(self) -> float:
        """How far the score has come from chance to perfect."""
        return (self.model - self.random) / (self.oracle - self.random)


@dataclass(frozen=True, kw_only=True)
class RiskCoverage:
    """Mean risk of the surest k rows, for k = 1..n."""

    coverage: Array
    risk: Array


def rc_curve(risks: Any, u: Any, *, ties: Ties = "mean") -> RiskCoverage:
    """Risk-coverage curve (El-Yaniv & Wiener 2010) of `risks` [n], 0/1 errors or any loss."""
    loss, ranking = _pair("risks", risks, u)
    n = len(loss)
    return RiskCoverage(coverage=np.arange(1, n + 1) / n, risk=ranking.prefix_means(loss, ties=ties))


def thinned(n: int, points: int) -> NDArray[np.intp]:
    """Indices of at most `points` of `n` places on a curve, evenly spaced, the ends included."""
    return np.unique(np.linspace(0, n - 1, min(points, n)).astype(np.intp))


def rc_auc(risks: Any, u: Any, *, ties: Ties = "mean", rule: Rule = "mean") -> float:
    """Area under the risk-coverage curve; lower is better.

    `mean` is (1/n) sum_k; `sum` leaves out 1/n, as the formula is printed; `trapezoid` integrates over coverages
    1/n..1 and is the risk itself when n = 1.
    """
    one_of("rule", rule, ("mean", "sum", "trapezoid"))
    loss, ranking = _pair("risks", risks, u)
    curve = ranking.prefix_means(loss, ties=ties)
    if rule == "mean":
        return float(curve.mean())
    if rule == "sum":
        return float(curve.sum())
    return float(np.trapezoid(curve, dx=1 / len(curve)) if len(curve) > 1 else curve[0])


def n_rc_auc(risks: Any, u: Any, *, ties: Ties = "mean") -> float:
    """RC-AUC between chance (0) and a perfect ranking (1); NaN when all risks are equal. Equals PRR of 1 - risk."""
    loss, ranking = _pair("risks", risks, u)
    areas = _areas(loss, ranking, ties=ties, kept=len(loss))
    return np.nan if loss.min() == loss.max() else areas.ratio


def e_aurc(risks: Any, u: Any, *, ties: Ties = "mean") -> float:
    """Excess area: RC-AUC less that of a perfect ranking (Geifman et al. 2019). 0 is best."""
    loss, ranking = _pair("risks", risks, u)
    areas = _areas(loss, ranking, ties=ties, kept=len(loss))
    return areas.model - areas.oracle


def prr_areas(quality: Any, u: Any, *, ties: Ties = "mean", max_rejection: float = 1.0) -> Areas:
    """The three areas behind PRR, over the coverages left by rejecting at most `max_rejection` of the rows."""
    worth, ranking = _pair("quality", quality, u)
    kept = coverages(max_rejection, len(worth))
    areas = _areas(-worth, ranking, ties=ties, kept=kept)
    return Areas(model=-areas.model, oracle=-areas.oracle, random=-areas.random)


def prr(quality: Any, u: Any, *, ties: Ties = "mean", max_rejection: float = 1.0) -> float:
    """Prediction rejection ratio: 1 for a perfect ranking, 0 for chance, below 0 for worse than chance.

    `quality` [n] is 1 for right and 0 for wrong, or any number that is better when higher. NaN when all qualities
    are equal, and when `max_rejection` leaves no coverage below 1 (MADE; Malinin & Gales 2021, in the retained-mean
    version).
    """
    worth, ranking = _pair("quality", quality, u)
    kept = coverages(max_rejection, len(worth))
    areas = _areas(-worth, ranking, ties=ties, kept=kept)
    # at full coverage alone every order has the same mean, so the ratio is 0 / 0
    return np.nan if kept <= 1 or worth.min() == worth.max() else areas.ratio


def prr_grid(quality: Any, u: Any, *, steps: int = 20, ties: Ties = "stable") -> float:
    """PRR as MADE's script computes it: the trapezoid over the coverages i/(steps-1), i = 1..steps-1.

    ceil(coverage n) rows are kept. For comparison with published values; `prr` needs no grid.
    """
    worth, ranking = _pair("quality", quality, u)
    intervals = whole_number("steps", steps, least=2) - 1
    n = len(worth)
    kept = -(-np.arange(1, intervals + 1) * n // intervals)  # ceil, in whole numbers

    def area(prefix_means: Array) -> float:
        return float(np.trapezoid(prefix_means[kept - 1], dx=1 / intervals))

    areas = Areas(
        model=area(ranking.prefix_means(worth, ties=ties)),
        oracle=area(running_means(np.sort(worth)[::-1])),
        random=float(worth.mean()) * (intervals - 1) / intervals,
    )
    return np.nan if intervals == 1 or worth.min() == worth.max() else areas.ratio


def coverages(max_rejection: float, n: int) -> int:
    """How many of the coverages k/n, counted down from 1, take part."""
    return snapped_floor(fraction("max_rejection", max_rejection, open_low=True) * n)


def _areas(risks: Array, ranking: Ranking, *, ties: Ties, kept: int) -> Areas:
    """Mean over the last `kept` coverages of the running mean risk, in this order and from the lowest risk on."""
    ranked = ranking.ranked(risks, ties=ties)
    if kept == 0:
        return Areas(model=np.nan, oracle=np.nan, random=np.nan)
    weights = place_weights(len(risks), kept)
    return Areas(
        model=inner(weights, ranked) / kept,
        oracle=inner(weights, np.sort(risks)) / kept,
        random=float(risks.mean()),  # exact: a random order keeps the mean at every coverage
    )


def place_weights(n: int, kept: int) -> Array:
    """Return [n]: what the value at place i adds to the last `kept` running means, the sum of 1/k over k >= i.

    Areas are linear in the values (Zhou et al. 2025), so several areas can share these weights.
    """
    weights = np.empty(n)
    from_the_end = weights[::-1]
    inverse = np.arange(n, n - kept, -1, dtype=np.float64)
    np.reciprocal(inverse, out=inverse)
    np.cumsum(inverse, out=from_the_end[:kept])
    from_the_end[kept:] = from_the_end[kept - 1]
    return weights


def _pair(name: str, values: Any, u: Any) -> tuple[Array, Ranking]:
    numbers, ranking = degrees(name, values), Ranking.by("u", u)
    named: dict[str, Sized] = {name: numbers, "u": ranking}
    same_length(**named)
    return numbers, ranking
