"""Strata of reviews by logged confidence, so that missing reviews are stood for by others that were as sure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from demur.audit.metrics.categories import grouped
from demur.audit.metrics.sampling import reviews
from demur.audit.metrics.weighted_rows import column_of
from demur.uncertainty.checks import Array, InvalidInput, finite, same_length, whole_number

ALL = "all"
N_BINS, MIN_SELECTED, MIN_COMPLETED = 5, 30, 10
BY_CHANCE = 0.1
"""Shares of completed reviews that differ by less than this is probable are taken to differ by chance."""


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
        values, counts = np.unique(c[inside & drawn], return_counts=True)
        completed_values, completed_counts = np.unique(c[inside & done], return_counts=True)
        cuts = confidence_cuts(
            ConfidenceCounts(values=values, counts=counts),
            ConfidenceCounts(values=completed_values, counts=completed_counts),
            bins,
            *least,
        )
        edges[base] = cuts.tolist()
        number[inside] = np.searchsorted(cuts, c[inside], side="left")
    return ConfidenceStrata(
        strata=[f"{name}/{place}" for name, place in zip(names, number.tolist(), strict=True)], edges=edges
    )


def strata_where_reviews_differ(confidence: Any, selected: Any, completed: Any, strata: Any) -> Sequence[str]:
    """Return `confidence_strata` [n], where a base stratum is one bin unless completion differs between its bins by
    more than chance. So labels keep one common weight where reviews are late at random."""
    found = confidence_strata(confidence, selected, completed, strata)
    drawn, done, _ = reviews(selected, completed, np.ones(len(found.strata)))
    bases = [name.rpartition("/")[0] for name in found.strata]
    codes, names = grouped("strata", found.strata)
    n_drawn, n_done = (np.bincount(codes, weights=x, minlength=len(names)) for x in (drawn, done))
    base_of = np.array([name.rpartition("/")[0] for name in names], dtype=object)
    apart = {
        base: completion_differs(n_drawn[base_of == base], n_done[base_of == base]) for base in dict.fromkeys(bases)
    }
    return [name if apart[base] else base for name, base in zip(found.strata, bases, strict=True)]


def completion_differs(drawn: NDArray[Any], done: NDArray[Any], level: float = BY_CHANCE) -> bool:
    """Whether the shares of completed reviews of several bins [b] differ by more than chance (chi squared)."""
    share = done.sum() / max(1.0, float(drawn.sum()))
    expected = drawn * share * (1 - share)
    if len(drawn) < 2 or not (expected > 0).all():
        return False
    return bool(chi2.sf(float((np.square(done - drawn * share) / expected).sum()), len(drawn) - 1) <= level)


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfidenceCounts:
    """Confidences [v] that occur, ascending, and in how many records each. An undefined one is -inf."""

    values: Array
    counts: NDArray[np.int64]

    def by_bin(self, cuts: Array) -> Array:
        """[b], how many records lie in each of the bins that the cut points close."""
        place = np.searchsorted(cuts, self.values, side="left")
        return np.asarray(np.bincount(place, weights=self.counts, minlength=len(cuts) + 1), dtype=np.float64)


def confidence_cuts(
    drawn: ConfidenceCounts, done: ConfidenceCounts, bins: int, min_selected: int, min_completed: int
) -> Array:
    """Return the cut points of one base stratum, from its records that were drawn and those of them that are done."""
    cuts = _cuts(drawn, bins)
    n_drawn, n_done = drawn.by_bin(cuts), done.by_bin(cuts)
    kept: list[float] = []
    some, finished = 0.0, 0.0
    for index, cut in enumerate(cuts.tolist()):
        some, finished = some + n_drawn[index], finished + n_done[index]
        if some >= min_selected and finished >= min_completed:
            kept.append(cut)
            some, finished = 0.0, 0.0
    if kept and (some + n_drawn[-1] < min_selected or finished + n_done[-1] < min_completed):
        kept.pop()  # the last bin joins the one before
    return np.array(kept)


def _cuts(drawn: ConfidenceCounts, bins: int) -> Array:
    """The distinct order statistics ceil(m n / bins) of the known confidences, without the largest value."""
    known = drawn.values > -np.inf
    values, upto = drawn.values[known], np.cumsum(drawn.counts[known])
    if not len(values):
        return np.empty(0)
    n = int(upto[-1])
    ranks = [-(-m * n // bins) for m in range(1, bins)]
    cuts = np.unique(values[np.searchsorted(upto, ranks, side="left")]) if ranks else np.empty(0)
    return np.asarray(cuts[cuts < values[-1]])
