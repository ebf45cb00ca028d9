"""What has no weighted form, because it selects or takes a maximum, counted on a plain sample of the traffic.

Labelled rows are thinned until every record of the traffic had the same chance to be among them (METHODS 9.2).
"""

from typing import Any

import numpy as np

from demur.audit.findings import Classes, KnownDecisions, all_or_nothing, score_lines, scores_of
from demur.audit.metrics.calibration import mce
from demur.audit.report.plan import AuditPlan
from demur.audit.report.sample import LedgerSample

FEWEST = 30

SHOWN = ("ti", "ti_95", "e_auopt_rc", "rejected_errors", "error_recall", "delta_macro_f1")


def plain_findings(sample: LedgerSample, by: AuditPlan) -> dict[str, Any]:
    """The number of rows, and what was found on them; nothing where they are too few."""
    rows = ~np.isnan(sample.confidence) & ~np.isnan(sample.quality)
    n = int(rows.sum())
    note = (
        "labelled rows, each of which stands for itself"
        if by.all_known
        else "labelled rows, thinned to one common chance"
    )
    if n < FEWEST:
        return {"n": n, "rows_are": note, "findings": []}
    told = rows & (sample.predicted >= 0) & (sample.true >= 0)
    exclusive = by.exclusive and bool(told[rows].all())
    judged = KnownDecisions(
        quality=sample.quality[rows],
        answered=np.zeros(n, dtype=bool),
        confidence=sample.confidence[rows],
        raw_confidence=None,
        scores={name: u[rows] for name, u in sample.scores.items() if not np.isnan(u[rows]).any()},
        classes=Classes(predicted=sample.predicted[rows].astype(np.intp), true=sample.true[rows].astype(np.intp))
        if exclusive
        else None,
    )
    lines = [
        {"name": line.name.split(".", 1)[0], "of": name, "value": line.value, "meaning": line.meaning}
        for name, u in scores_of(judged).items()
        for line in score_lines(judged, name, u)
        if line.name.startswith(SHOWN)
    ]
    if all_or_nothing(judged.quality):
        for when, confidence in (("mce", judged.confidence), ("mce_before", sample.top_probability[rows])):
            if not np.isnan(confidence).any() and (when == "mce" or by.exclusive):
                value = mce(confidence, judged.quality)
                lines.append({"name": when, "of": "", "value": value, "meaning": "the largest gap of a bin"})
    return {"n": n, "rows_are": note, "findings": lines}
