"""Audits of simulated services, many in a row, beside what all labels would have said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import expit, ndtri
from scipy.stats import norm

from demur.audit.ledger.ledger import Ledger
from demur.audit.metrics.calibration import ace, brier, c_slope, citl, ece, nll
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.predictive_quality import macro_f1
from demur.audit.metrics.selective import prr, rc_auc
from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.plan import Settings
from demur.uncertainty.checks import Array
from tests.audit.report.simulated import Simulated

RUNS = 200
N = 12_000
REPLICATES = 199
"""Enough for ends that are the 5th smallest and the 5th largest of them."""

DELTA = 0.05
CUT = 2.2 + 1.6 * ndtri(0.15)
THRESHOLD = expit(1.35 * CUT)

FULL: Mapping[str, Callable[[Simulated], float]] = {
    "risk": lambda s: 1 - s.right.mean(),
    "selective_risk": lambda s: 1 - s.right[s.ledger.answered].mean(),
    "ece": lambda s: ece(s.ledger.confidence, s.right),
    "ace": lambda s: ace(s.ledger.confidence, s.right),
    "brier": lambda s: brier(s.ledger.confidence, s.right),
    "nll": lambda s: nll(s.ledger.confidence, s.right),
    "citl": lambda s: citl(s.ledger.confidence, s.right),
    "c_slope": lambda s: c_slope(s.ledger.confidence, s.right),
    "auroc": lambda s: error_roc_auc(s.right, -s.ledger.confidence),
    "prr": lambda s: prr(s.right, -s.ledger.confidence),
    "rc_auc": lambda s: rc_auc(1 - s.right, -s.ledger.confidence),
    "macro_f1": lambda s: macro_f1(s.true, _predicted(s)),
}
"""What everybody would find who had all the labels, by functions that know no weights."""


def _predicted(s: Simulated) -> NDArray[np.int32]:
    assert s.ledger.predicted is not None
    return s.ledger.predicted.codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """[runs] each: what the audits say of one number, and what all labels would have said."""

    value: Array
    lower: Array
    upper: Array
    naive: Array
    full: Array

    @property
    def bias(self) -> float:
        return float((self.value - self.full).mean())

    @property
    def standard_error(self) -> float:
        return float((self.value - self.full).std(ddof=1) / np.sqrt(len(self.full)))

    def covered(self, truth: float) -> int:
        return int(((self.lower <= truth) & (truth <= self.upper)).sum())


def document_of(ledger: Ledger, *, seed: int = 0, replicates: int = REPLICATES, **asked: Any) -> Mapping[str, Any]:
    settings = Settings(replicates=replicates, seed=seed, delta=DELTA)
    return audit(ledger, AuditSettings(settings=settings, **asked)).document


def in_brief(ledger: Ledger) -> Ledger:
    """Of one moment and with the confidence as its only score, so that an audit of it is quick."""
    return replace(ledger, scores={}, times=np.full(len(ledger), ledger.times[0]))


def numbers_of(document: Mapping[str, Any]) -> dict[str, list[float]]:
    """By name: value, both ends, and the naive value; NaN for what is not said."""
    return {
        one["name"]: [np.nan if one[key] is None else one[key] for key in ("value", "lower", "upper", "naive")]
        for one in document["estimates"]
        if one["of"] in ("", "confidence")
    }


def audited(draw: Callable[[np.random.Generator], Simulated], *, runs: int, replicates: int) -> dict[str, Found]:
    rng = np.random.default_rng(20261121)
    rows: dict[str, list[list[float]]] = {name: [] for name in FULL}
    for seed in range(runs):
        service = draw(rng)
        numbers = numbers_of(document_of(in_brief(service.ledger), seed=seed, replicates=replicates))
        for name, full in FULL.items():
            rows[name].append([*numbers[name], full(service)])
    columns = ("value", "lower", "upper", "naive", "full")
    return {name: Found(**dict(zip(columns, np.array(of).T, strict=True))) for name, of in rows.items()}


def true_selective_risk() -> float:
    """By integration, with no draw at all."""
    return float(quad(lambda z: (1 - expit(z)) * norm.pdf(z, 2.2, 1.6), CUT, 30)[0] / 0.85)


def bare(ledger: Ledger) -> Ledger:
    """Without labels and confidences, for tests of risks alone."""
    nothing = np.full(len(ledger), np.nan)
    return replace(
        ledger, predicted=None, true=None, true_probability=None, confidence=nothing, top_probability=nothing
    )
