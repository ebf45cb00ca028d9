"""The curves of a report, corrected for who was labelled, with a band: risk over coverage, and reliability."""

from typing import Any

import numpy as np

from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.resampling import Interval
from demur.audit.report import rank_sums
from demur.audit.report.grounds import MIN_EVENTS, NO_INTERVAL, few_drawn, grounds_of, over
from demur.audit.report.risks import RiskEvidence
from demur.audit.report.survey import CONFIDENCE
from demur.audit.report.weighted import CalibrationSums
from demur.uncertainty.checks import Array

POINTS = 200


def risk_coverage(evidence: RiskEvidence) -> dict[str, Any]:
    """Risk among the surest records against how many those are, if the limit were moved along the confidence; and
    that of all rows with an outcome, each counted once."""
    sums = evidence.tally.weighted.scores.get(CONFIDENCE)
    grounds = grounds_of(evidence.counts, evidence.by, 0)
    if sums is None or not len(sums.fine.n) or not grounds.enough:
        return {"points": [], "naive": []}
    coverage, risk = rank_sums.risk_at_coverages(sums.fine)
    shown = _spread(coverage)
    bands: list[tuple[float, float]] = [(np.nan, np.nan)] * len(shown)
    if sums.coarse and evidence.resamples.possible and not few_drawn(evidence.counts):
        enough = np.cumsum(sums.errors)[shown] >= MIN_EVENTS
        found = _bands(evidence, sums.coarse, coverage[shown], risk[shown])
        bands = [band if known else (np.nan, np.nan) for band, known in zip(found, enough.tolist(), strict=True)]
    naive = evidence.tally.naive.scores[CONFIDENCE].fine
    used = naive.n > 0
    naive_coverage, naive_risk = rank_sums.risk_at_coverages(
        rank_sums.RankSums(
            n=naive.n[used],
            weight=naive.weight[used],
            loss=naive.loss[used],
            wrong=naive.wrong[used],
            losses=naive.losses,
            of_loss=naive.of_loss,
        )
    )
    naive_shown = _spread(naive_coverage)
    limits = -evidence.by.values[CONFIDENCE]
    return {
        "points": [
            {
                "confidence": limits[at],
                "coverage": coverage[at],
                "risk": risk[at],
                "lower": band[0],
                "upper": band[1],
            }
            for at, band in zip(shown.tolist(), bands, strict=True)
        ],
        "naive": [
            {"coverage": c, "risk": r}
            for c, r in zip(naive_coverage[naive_shown].tolist(), naive_risk[naive_shown].tolist(), strict=True)
        ],
        "perfect": _perfect(sums.fine),
    }


def reliability(evidence: RiskEvidence) -> dict[str, list[dict[str, Any]]]:
    """By bin of confidence: how often predictions were right, before and after calibration."""
    found = {}
    if not grounds_of(evidence.counts, evidence.by, 0).enough:
        return {}
    for when, sums in evidence.tally.weighted.calibration.items():
        w, wc, wy = (part.sum(axis=0) for part in (sums.w, sums.wc, sums.wy))
        intervals = _bin_intervals(evidence, sums, apart="@" not in when and not evidence.by.clustered)
        naive = evidence.tally.naive.calibration[when]
        plain = over(naive.wy.sum(axis=0), naive.w.sum(axis=0))
        confidence, right = over(wc, w), over(wy, w)
        found[when] = [
            {
                "from": at / len(w),
                "to": (at + 1) / len(w),
                "n": int(sums.n[at]),
                "labelled": int(sums.labelled[at]),
                "confidence": confidence[at],
                "right": right[at],
                "lower": intervals[at].lower,
                "upper": intervals[at].upper,
                "naive": plain[at],
            }
            for at in range(len(w))
        ]
    return found


def _bin_intervals(evidence: RiskEvidence, sums: CalibrationSums, *, apart: bool) -> list[Interval]:
    """Exact where all labels of a bin weigh alike and none hangs on another (`apart`); else resampled, and none of too
    few errors or right answers: what is there to be resampled would then show too little."""
    again = over(evidence.resamples.of(sums.wy), evidence.resamples.of(sums.w))
    resampled = [evidence.resamples.interval(column) for column in again.T]
    found = []
    for at, w in enumerate(sums.w.sum(axis=0).tolist()):
        n, wrong = int(sums.labelled[at]), int(sums.errors[at])
        alike = w * w >= n * sums.w_w[at] * (1 - 1e-9)
        if n and alike and apart and evidence.by.binary:
            found.append(clopper_pearson(n - wrong, n, evidence.by.settings.delta))
        else:
            found.append(resampled[at] if min(wrong, n - wrong) >= MIN_EVENTS else NO_INTERVAL)
    return found


def _bands(evidence: RiskEvidence, coarse: Any, coverage: Array, risk: Array) -> list[tuple[float, float]]:
    """The bootstrap's interval of the risk at each coverage, moved from the coarse curve to the fine one."""
    n, weight, loss = (coarse[name] for name in ("n", "weight", "loss"))
    rough_coverage = np.cumsum(n.sum(axis=0)) / n.sum()
    rough = over(np.cumsum(loss.sum(axis=0)), np.cumsum(weight.sum(axis=0)))
    again = over(np.cumsum(evidence.resamples.of(loss), axis=-1), np.cumsum(evidence.resamples.of(weight), axis=-1))
    lower, upper = evidence.resamples.intervals(again)
    at = np.clip(np.searchsorted(rough_coverage, coverage - 1e-12), 0, len(rough) - 1)
    return [
        (max(0.0, float(r + lower[i] - rough[i])), min(1.0, float(r + upper[i] - rough[i])))
        for r, i in zip(risk.tolist(), at.tolist(), strict=True)
    ]


def _perfect(fine: rank_sums.RankSums) -> list[dict[str, float]]:
    """The curve of a score that knows: labelled rows by ascending loss."""
    total = fine.of_loss.sum()
    if total <= 0:
        return []
    width = fine.of_loss / total
    ends = np.cumsum(width)
    at = np.unique(np.concatenate([ends, np.linspace(0.01, 1, 50)]).clip(1e-9, 1))
    mass = np.concatenate([[0.0], np.cumsum(width * fine.losses)])
    risk = np.interp(at, np.concatenate([[0.0], ends]), mass) / at
    return [{"coverage": c, "risk": r} for c, r in zip(at.tolist(), risk.tolist(), strict=True)]


def _spread(coverage: Array) -> Array:
    """Positions of at most `POINTS` of them, evenly spaced in coverage, the last one included."""
    wanted = np.linspace(0, 1, POINTS + 1)[1:]
    return np.unique(np.clip(np.searchsorted(coverage, wanted - 1e-12), 0, len(coverage) - 1))
