"""A mean loss from predicted losses of all rows, put right by the labels of some (METHODS 9.2, AIPW)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.audit.metrics.intervals import normal_quantile
from demur.audit.metrics.weighted_rows import at, column_of, label_draw
from demur.uncertainty.checks import finite, same_length


@dataclass(frozen=True, kw_only=True)
class AssistedMean:
    """The estimate and its normal interval, not clipped; NaN without a label, or of one row without an interval."""

    estimate: float
    standard_error: float
    lower: float
    upper: float
    n: int
    n_labelled: int


def aipw_mean(predicted: Any, outcome: Any, labelled: Any, probability: Any, delta: Any = 0.05) -> AssistedMean:
    """Mean of f + (x / pi)(l - f) over rows [n]: `predicted` losses f, and `outcome` losses l where labelled.

    The difference estimator (Sarndal et al. 1992; Robins et al. 1994; Angelopoulos et al. 2023). Unbiased whatever f
    is, if f was not fitted on these labels; a good one gives a shorter interval. With f = 0 it is Horvitz & Thompson's.
    """
    z = normal_quantile(delta)
    known, chance = label_draw(labelled, probability)
    f, rows = finite("predicted", predicted), column_of("outcome", outcome)
    n = same_length(predicted=f, outcome=rows, labelled=known)
    n_labelled = int(known.sum())
    if n_labelled == 0:  # predictions alone are no evidence
        return AssistedMean(estimate=np.nan, standard_error=np.nan, lower=np.nan, upper=np.nan, n=n, n_labelled=0)
    phi = f.copy()
    phi[known] += (finite("outcome", at(rows, known)) - f[known]) / chance[known]
    estimate = float(phi.mean())
    error = float(np.linalg.norm(phi - estimate) / np.sqrt(n * (n - 1))) if n > 1 else np.nan
    return AssistedMean(
        estimate=estimate,
        standard_error=error,
        lower=estimate - z * error,
        upper=estimate + z * error,
        n=n,
        n_labelled=n_labelled,
    )
