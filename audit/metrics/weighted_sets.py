"""Whether sets of options hold the truth, from partial labels (METHODS 9.2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.audit.metrics.prediction_sets import membership
from demur.audit.metrics.weighted_rows import column_of, mean_of, relative
from demur.uncertainty.checks import same_length


@dataclass(frozen=True, kw_only=True)
class WeightedSetSummary:
    """Sizes are those of all `n` rows; coverage is the weighted share of the labelled ones, NaN without a label."""

    n: int
    n_labelled: int
    coverage: float
    average_set_size: float
    empty_rate: float
    singleton_rate: float


def weighted_set_metrics(sets: Any, truth: Any, weights: Any) -> WeightedSetSummary:
    """Summarise `n` prediction sets, lists of options or a boolean array [n, K].

    `truth` [n] is the right option, read where a row has a label; `weights` [n] are 1 / label probability, 0 without.
    """
    w, options = relative(weights), column_of("truth", truth)
    same_length(truth=options, weights=w)
    known = w > 0
    read = [option if here else 0 for option, here in zip(options, known.tolist(), strict=True)]
    sizes, covered = membership(sets, read, None)  # whether 0 is in a set without a label counts for nothing
    return WeightedSetSummary(
        n=len(w),
        n_labelled=int(known.sum()),
        coverage=mean_of(covered.astype(np.float64), w),
        average_set_size=float(sizes.mean()),
        empty_rate=float((sizes == 0).mean()),
        singleton_rate=float((sizes == 1).mean()),
    )
