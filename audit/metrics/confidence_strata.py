"""Strata of reviews by logged confidence, so that missing reviews are stood for by others that were as sure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.categories import grouped
from demur.audit.metrics.sampling import reviews
from demur.audit.metrics.weighted_rows import column_of
from demur.uncertainty.checks import Array, InvalidInput, finite, same_length, whole_number

ALL = "all"
N_BINS, MIN_SELECTED, MIN_COMPLETED = 5, 30, 10


@dataclass(frozen=True, kw_only=True)
class ConfidenceStrata:
    """What `completion_weights` takes for strata."""

    strata: Sequence[str]
    """[n], `base/bin`; bin 0 is the least sure."""

    edges: Mapping[str, Sequence[float]]
    """The cut points of each base stratum: a confidence is in the bin of so many cut points below it."""


def confidence_strata(
    confidence: Any,
    selected: Any,
    completed: Any,
    strata: Any = None,
    n_bins: Any = N_BINS,
    min_selected: Any = MIN_SELECTED,
    min_completed: Any = MIN_COMPLETED,
) -> ConfidenceStrata:
    """Return strata [n] of the base `strata` (action and group; default one) and the logged `confidence` [n].

    Each base is cut where its selected records have equal shares, and bins are pooled from the least sure upwards until
    each has enough records `selected` for a review and enough `completed`. A confidence of None, which is undefined,
    is in the lowest bin. Right if completion depends on the outcome only through base and confidence (METHODS 10.7).
    """
    drawn, done, _ = reviews(selected, completed, np.ones(len(column_of("selected", selected))))
    rows = column_of("confidence", confidence)
    same_length(confidence=rows, selected=drawn)
    known = np.array([value is not None for value in rows])
    c = np.full(len(rows), -np.inf)
    if known.any():
        c[known] = finite("confidence", [value for value in rows if value is not None])
    bins = whole_number("n_bins", n_bins, least=1)
    least = whole_number("min_selected", min_selected, least=1), whole_number("min_completed", min_completed)
    names = [ALL] * len(rows) if strata is None else list(column_of("strata", strata))
    if any(not isinstance(name, str) or not name for name in names):
        raise InvalidInput("strata holds something other than a non-empty text")
    codes, bases = grouped("strata", names)
    same_length(strata=names, selected=drawn)
    number = np.zeros(len(rows), dtype=np.intp)
    edges = {}
    for code, base in enumerate(bases):
        inside = codes == code
        cuts = _cuts(c[inside & drawn & known], bins)
        cuts = _pooled(cuts, c[inside & drawn], done[inside & drawn], *least)
        edges[base] = cuts.tolist()
        number[inside] = np.searchsorted(cuts, c[inside], side="left")
    return ConfidenceStrata(
        strata=[f"{name}/{place}" for name, place in zip(names, number.tolist(), strict=True)], edges=edges
    )


def _cuts(confidence: Array, bins: int) -> Array:
    """The distinct order statistics ceil(m n / bins) without the largest value."""
    ranked = np.sort(confidence)
    n = len(ranked)
    if n == 0:
        return np.empty(0)
    ranks = [-(-m * n // bins) for m in range(1, bins)]
    values = np.unique(ranked[[rank - 1 for rank in ranks]]) if ranks else np.empty(0)
    return np.asarray(values[values < ranked[-1]])


def _pooled(cuts: Array, confidence: Array, done: NDArray[np.bool_], min_selected: int, min_completed: int) -> Array:
    """The cut points that close a bin with enough records, from the least sure upwards."""
    place = np.searchsorted(cuts, confidence, side="left")
    n_drawn, n_done = np.bincount(place, minlength=len(cuts) + 1), np.bincount(place[done], minlength=len(cuts) + 1)
    kept: list[float] = []
    some, finished = 0, 0
    for index, cut in enumerate(cuts.tolist()):
        some, finished = some + n_drawn[index], finished + n_done[index]
        if some >= min_selected and finished >= min_completed:
            kept.append(cut)
            some, finished = 0, 0
    if kept and (some + n_drawn[-1] < min_selected or finished + n_done[-1] < min_completed):
        kept.pop()  # the last bin joins the one before
    return np.array(kept)
