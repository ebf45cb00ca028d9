"""Risk among the answered, and how well a score ranks predictions for rejection, from partial labels (METHODS 9.2).

`u` [n] is higher when the model is less sure, known for every row, and may be a `Ranking`. Risks and qualities are
read where a row has a label; `weights` [n] are 1 / label probability, 0 without a label. Ranks and coverage come from
all rows: ranking the labelled rows among themselves would be wrong.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.audit.metrics.ranking import Ranking
from demur.audit.metrics.selective import Areas, coverages, place_weights
from demur.audit.metrics.weighted_rows import known_values, mean_of, relative
from demur.uncertainty.checks import Array, degrees, finite, real_number, unit_interval


@dataclass(frozen=True, kw_only=True)
class WeightedSelectiveRisk:
    """What is answered, of all `n` rows, and the weighted risk of those among them that have a label (or NaN)."""

    coverage: float
    risk: float
    n_answered: int
    n_labelled: int
    """Of the answered."""


def weighted_selective_risk(u: Any, errors: Any, weights: Any, threshold: Any) -> WeightedSelectiveRisk:
    """Answer where u <= threshold (which may be infinite); `errors` [n] lie in [0, 1].

    Coverage needs no label. Risk is sum w e / sum w over the answered rows with a label.
    """
    limit = real_number("threshold", threshold, infinite=True)
    w, scores = relative(weights), finite("u", u)
    lost = known_values("errors", errors, w, unit_interval, u=scores)
    answered = scores <= limit
    return WeightedSelectiveRisk(
        coverage=float(answered.mean()),
        risk=mean_of(lost[answered], w[answered]),
        n_answered=int(answered.sum()),
        n_labelled=int((w[answered] > 0).sum()),
    )


def area_shares(u: Any, *, max_rejection: float = 1.0) -> Array:
    """Return a [n] with sum a r = the area under the risk-coverage curve of risks r [n]; the sum of a is 1.

    The area is linear in the risks, and a depends on ranks alone (Zhou et al. 2025): sum w a r, over the rows with a
    label, is exactly unbiased for the area that all labels would give. NaN where no coverage takes part.
    """
    ranking = Ranking.by("u", u)
    kept = coverages(max_rejection, len(ranking))
    shares = np.full(len(ranking), np.nan)
    if kept:
        shares[ranking.order] = _by_place(ranking, kept)
    return shares


def weighted_rc_auc(risks: Any, u: Any, weights: Any) -> float:
    """Area under the risk-coverage curve, sum w a r / sum w a; lower is better. NaN without a label."""
    loss, ranking, w = _columns("risks", risks, u, weights)
    return mean_of(loss[ranking.order], w[ranking.order] * _by_place(ranking, len(ranking)))


def weighted_n_rc_auc(risks: Any, u: Any, weights: Any) -> float:
    """RC-AUC between chance (0) and a perfect ranking (1); NaN when all known risks are equal.

    With few labels it may come out above 1.
    """
    loss, ranking, w = _columns("risks", risks, u, weights)
    return _ratio(loss, ranking, w, len(ranking))


def weighted_prr(quality: Any, u: Any, weights: Any, *, max_rejection: float = 1.0) -> float:
    """Prediction rejection ratio: 1 for a perfect ranking, 0 for chance; NaN when all known qualities are equal, and
    when `max_rejection` leaves no coverage below 1. With few labels it may come out above 1."""
    worth, ranking, w = _columns("quality", quality, u, weights)
    return _ratio(-worth, ranking, w, coverages(max_rejection, len(ranking)))


def weighted_areas(loss: Array, ranking: Ranking, weights: Array, kept: int) -> Areas:
    """The three areas behind both ratios, of risks [n], over the last `kept` >= 1 coverages k/n; a row at least has a
    label, and `weights` have been made `relative`.

    The perfect ranking has the labelled rows by ascending risk, each as wide as the n w / W rows that it stands for.
    """
    n, known = len(ranking), weights > 0
    known_loss, width = loss[known], weights[known]
    order = np.argsort(known_loss, kind="stable")
    known_loss, width = known_loss[order], width[order] * (n / weights.sum())
    places, integral = (np.append(0.0, np.cumsum(x)) for x in (width, width * known_loss))
    k = np.arange(n - kept + 1, n + 1)
    return Areas(
        model=mean_of(loss[ranking.order], weights[ranking.order] * _by_place(ranking, kept)),
        oracle=float((np.interp(k, places, integral) / k).mean()),
        random=mean_of(loss, weights),
    )


def _ratio(loss: Array, ranking: Ranking, weights: Array, kept: int) -> float:
    known = loss[weights > 0]
    if not len(known) or known.min() == known.max() or kept <= 1:  # at full coverage alone every order is the same
        return np.nan
    areas = weighted_areas(loss, ranking, weights, kept)
    return np.nan if areas.random == areas.oracle else areas.ratio


def _by_place(ranking: Ranking, kept: int) -> Array:
    """[n], by place in the ranking's order: what the risk there adds to the area."""
    return ranking.means_of_places(place_weights(len(ranking), kept) / kept)


def _columns(name: str, values: Any, u: Any, weights: Any) -> tuple[Array, Ranking, Array]:
    w, ranking = relative(weights), Ranking.by("u", u)
    return known_values(name, values, w, degrees, u=ranking), ranking, w
