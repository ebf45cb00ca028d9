"""Which of several scores to trust: by how well each ranks errors, and how far they agree."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from demur.audit.metrics.correlation import benefit_z, kendall_tau_b
from demur.audit.report.grounds import Estimate
from demur.audit.report.plan import ROWS_FOR_TAU
from demur.audit.report.sample import LedgerSample
from demur.audit.report.survey import CONFIDENCE

BETTER = {"auroc": "higher", "au_prc": "higher", "prr": "higher", "rc_auc": "lower"}
"""The estimates by which scores are compared, and which way is better."""


def compared(estimates: Sequence[Estimate], sample: LedgerSample) -> dict[str, Any]:
    """The scores, best first, by the mean over the estimates of how many standard deviations each is better than all on
    average (PRED 4.2); and Kendall's tau-b between each two."""
    values = {(one.name, one.of): one.value for one in estimates if one.name in BETTER}
    names = list(dict.fromkeys(of for _, of in values))
    known = [name for name in names if name == CONFIDENCE or not np.isnan(sample.scores[name]).any()]
    partly = [name for name in names if name not in known]
    columns = {metric: [values.get((metric, name)) for name in known] for metric in BETTER}
    defined = {metric: column for metric, column in columns.items() if column and None not in column}
    benefit = dict.fromkeys(known, 0.0)
    if defined and len(known) > 1:
        z = benefit_z(defined, {metric: BETTER[metric] for metric in defined})
        benefit = dict(zip(known, np.mean(list(z.values()), axis=0).tolist(), strict=True))
    best = sorted(known, key=lambda name: (-benefit[name], name))
    rows = ~np.isnan(sample.confidence)
    rows[np.flatnonzero(rows)[ROWS_FOR_TAU:]] = False
    u = {name: (-sample.confidence if name == CONFIDENCE else sample.scores[name])[rows] for name in best}
    tau = [
        [1.0 if a == b else _tau(u[a], u[b]) if int(rows.sum()) > 1 else None for b in best[: at + 1]]
        for at, a in enumerate(best)
    ]
    return {
        "best_first": [{"score": name, "benefit": benefit[name]} for name in best],
        "compared_by": dict(BETTER),
        "of_some_rows": partly,
        "kendall_tau_b": {"n": int(rows.sum()), "lower_triangle": tau},
    }


def _tau(a: Any, b: Any) -> float | None:
    value = kendall_tau_b(a, b).tau
    return None if np.isnan(value) else float(value)
