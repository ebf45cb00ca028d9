"""Whether metrics agree on which scores are better: Kendall between metrics (Khallaf & Sharoff 4.4)."""

from collections.abc import Mapping, Sequence

import numpy as np

from demur.audit.metrics.correlation import kendall_tau_b

LOWER = frozenset({"rc_auc", "e_aurc", "e_auopt_rc", "ece", "brier", "nll"})
"""Metrics of which less is better; they are turned around, so that 1 means agreement."""

FEWEST_SCORES = 4
"""Fewer scores are not compared: with three, two metrics order them alike by chance once in six times."""


def metric_agreement(values: Mapping[str, Sequence[float | None]]) -> dict[str, dict[str, float | None]] | None:
    """Return Kendall's tau-b of every two metrics over the same S scores, by name; None where there is nothing to say.

    `values` [S] of each metric are those of the scores, None where one is undefined: such a metric is left out. Two
    metrics or more of 4 scores or more are needed. A tau is None where a metric is the same for all scores.
    """
    known = {name: [one for one in row if one is not None] for name, row in values.items() if None not in row}
    if len(known) < 2 or min(map(len, known.values())) < FEWEST_SCORES:
        return None
    turned = {name: np.array(row) * (-1 if name in LOWER else 1) for name, row in known.items()}
    return {a: {b: _tau(turned[a], turned[b]) for b in turned} for a in turned}


def _tau(a: np.ndarray, b: np.ndarray) -> float | None:
    tau = kendall_tau_b(a, b).tau
    return None if np.isnan(tau) else float(tau)
