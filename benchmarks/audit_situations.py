"""What audits say where labels are few, missing, dependent or mistaken, with and without their corrections.

python -m benchmarks.audit_situations [--runs 60] [--write docs/evidence/audits.md]

The services are simulated, so the true risk is known: an over-confident model, an audit of each (METHODS 9.9, 10.15).
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.progress import Progress
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from benchmarks.monitor_delays import markdown
from benchmarks.real.document import with_tables
from demur.audit.ledger.ledger import NONE, CodedColumn, Ledger
from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.promise_tests import judge_count
from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.plan import Settings
from demur.audit.reviewer_error import ReviewerError, reviewer_error
from demur.review.disagreement import DecidedCheck
from demur.uncertainty.checks import Array
from tests.audit.report.simulated import Simulated, simulated
from tests.audit.report.simulated_audits import FULL, in_brief

SEED = 20261121
DELTA = 0.05
CUT = 0.5
THRESHOLD = float(expit(1.35 * CUT))
ANSWERED = float(norm.sf((CUT - 2.2) / 1.6))
TRUE_RISK = float(quad(lambda z: (1 - expit(z)) * norm.pdf(z, 2.2, 1.6), CUT, 30)[0] / ANSWERED)
SPOT_CHECK = 0.25
LABELS = (400,)
FEW = (20, 30, 50)
KEPT, BROKEN = "kept", "broken"
RANKING = ("auroc", "prr", "brier")


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """What one audit says of the risk of the answers, judged against the true risk as the promise."""

    value: float
    lower: float
    upper: float
    verdict: str


Corrected = tuple[Ledger, ReviewerError | None]
Situation = Callable[[int, np.random.Generator], Corrected]


def drawn(labels: int, rng: np.random.Generator, *, reviewed: float = 1.0, **settings: Any) -> Simulated:
    """A service with about so many labelled answers, if a share of the drawn ones is reviewed."""
    n = round(labels / (SPOT_CHECK * ANSWERED * reviewed))
    return simulated(n, rng, threshold=THRESHOLD, spot_check=SPOT_CHECK, **settings)


def without(ledger: Ledger, missing: Any) -> Ledger:
    """Take the reviews of some records away."""
    kept = ledger.reviewed & ~missing
    quality, covered, right = (
        np.where(kept, one, np.nan) for one in (ledger.quality, ledger.covered, ledger.right_labels)
    )
    return replace(ledger, reviewed=kept, quality=quality, covered=covered, right_labels=right)


def all_reviewed(labels: int, rng: np.random.Generator) -> Corrected:
    return in_brief(drawn(labels, rng).ledger), None


def late_if_unsure(labels: int, rng: np.random.Generator) -> Corrected:
    """Nine in ten where the model is sure, four in ten elsewhere."""
    ledger = in_brief(drawn(labels, rng, reviewed=0.66).ledger)
    sure = ledger.confidence > expit(1.35 * 2.2)
    return without(ledger, rng.random(len(ledger)) >= np.where(sure, 0.9, 0.4)), None


def by_outcome(wrong: float, right: float) -> Situation:
    def made(labels: int, rng: np.random.Generator) -> Corrected:
        service = drawn(labels, rng, reviewed=right)
        ledger = in_brief(service.ledger)
        return without(ledger, rng.random(len(ledger)) >= np.where(service.right == 0, wrong, right)), None

    return made


def erring(sensitivity: float, specificity: float) -> Situation:
    """Reviewers who err, with 40 second looks at wrong answers and 200 at right ones."""

    def made(labels: int, rng: np.random.Generator) -> Corrected:
        ledger = in_brief(drawn(labels, rng).ledger)
        true = np.nan_to_num(ledger.quality)
        keeps = rng.random(len(ledger)) < np.where(true == 1, specificity, sensitivity)
        said = np.where(np.isnan(ledger.quality), np.nan, np.where(keeps, true, 1 - true))
        sources = CodedColumn(names=("review",), codes=np.where(np.isnan(said), NONE, 0).astype(np.int32))
        return replace(ledger, quality=said, sources=sources), _looks(rng, sensitivity, specificity)

    return made


def _looks(rng: np.random.Generator, sensitivity: float, specificity: float) -> ReviewerError:
    hits, cleared = rng.binomial(40, sensitivity), rng.binomial(200, specificity)
    counts = ((True, True, hits), (False, True, 40 - hits), (False, False, cleared), (True, False, 200 - cleared))
    return reviewer_error([DecidedCheck(first_overturns=a, truth_overturns=b, n=int(n)) for a, b, n in counts])


def of_patients(labels: int, rng: np.random.Generator) -> Corrected:
    return in_brief(drawn(labels, rng, per_cluster=20, dependence=0.8).ledger), None


SITUATIONS: Mapping[str, Situation] = {
    "all reviewed": all_reviewed,
    "reviews late where the model is unsure": late_if_unsure,
    "wrong answers reviewed half as often": by_outcome(0.45, 0.9),
    "wrong answers reviewed twice as often": by_outcome(0.9, 0.45),
    "reviewers: sensitivity 0.9, specificity 0.97": erring(0.9, 0.97),
    "reviewers: sensitivity 0.7, specificity 1": erring(0.7, 1.0),
    "20 records of a patient, who go together": of_patients,
}


def plainly(ledger: Ledger) -> AuditFinding:
    """Judge as if the labels of the answers were a plain sample, which they are not."""
    known = ledger.answered & ledger.reviewed
    n, wrong = int(known.sum()), int((ledger.quality[known] == 0).sum())
    ends = clopper_pearson(wrong, n, DELTA)
    status = judge_count(wrong, n, TRUE_RISK, DELTA).status
    return AuditFinding(value=wrong / n, lower=ends.lower, upper=ends.upper, verdict=status.value)


def corrected(ledger: Ledger, looks: ReviewerError | None, *, seed: int, replicates: int = 199) -> AuditFinding:
    """What the audit of the product says; where reviewers' errors are known, without them."""
    settings = Settings(replicates=replicates, seed=seed, delta=DELTA)
    document = audit(ledger, AuditSettings(settings=settings, max_risk=TRUE_RISK, reviewers=looks)).document
    (one,) = document["headline"]["judgements"]
    if one["corrected"]:
        return AuditFinding(**{name: one["corrected"][name] for name in ("value", "lower", "upper", "verdict")})
    found = {each["name"]: each for each in document["estimates"]}["selective_risk"]
    ends = {name: np.nan if found[name] is None else found[name] for name in ("value", "lower", "upper")}
    return AuditFinding(**ends, verdict=one["verdict"])


def situations(*, runs: int, step: Callable[[], None]) -> str:
    rows = []
    for name, make in SITUATIONS.items():
        for labels in LABELS:
            rng = np.random.default_rng(SEED)
            before, after = [], []
            for seed in range(runs):
                ledger, looks = make(labels, rng)
                before.append(plainly(ledger))
                after.append(corrected(ledger, looks, seed=seed))
                step()
            rows.append([name, f"{labels}", *_both(before, after)])
    head = ["situation", "labels", "mean estimate", "interval covers", "called kept", "called broken"]
    return markdown(head, rows)


def _both(before: Sequence[AuditFinding], after: Sequence[AuditFinding]) -> list[str]:
    def cells(said: Sequence[AuditFinding]) -> list[str]:
        values = np.array([one.value for one in said])
        inside = [one.lower <= TRUE_RISK <= one.upper for one in said if not np.isnan(one.lower)]
        shares = [np.mean([one.verdict == word for one in said]) for word in (KEPT, BROKEN)]
        return [f"{np.nanmean(values):.3f}", f"{np.mean(inside):.0%}", *(f"{share:.1%}" for share in shares)]

    return [f"{one} → {other}" for one, other in zip(cells(before), cells(after), strict=True)]


def few_labels(*, runs: int, step: Callable[[], None]) -> str:
    """Intervals of ranking metrics with the rule that holds them back, and without."""
    rng = np.random.default_rng(SEED)
    truth = {name: _full(name, rng) for name in RANKING}
    rows = []
    for labels in FEW:
        rng = np.random.default_rng(SEED)
        found: dict[bool, list[Mapping[str, tuple[float, float]]]] = {True: [], False: []}
        for seed in range(runs):
            n = round(labels / (0.02 * ANSWERED))
            ledger = in_brief(simulated(n, rng, threshold=THRESHOLD, spot_check=0.02).ledger)
            for guarded in found:
                found[guarded].append(_ends(ledger, seed, guarded=guarded))
            step()
        cells = []
        for name in RANKING:
            inside = [_share_inside(found[guarded], name, truth[name]) for guarded in (False, True)]
            shown = np.mean([not np.isnan(one[name][0]) for one in found[True]])
            cells.append(f"{inside[0]} → {inside[1]} (shown in {shown:.0%})")
        rows.append([f"{labels}", *cells])
    return markdown(["labelled answers", "AUROC of errors", "PRR", "Brier"], rows)


def _full(name: str, rng: np.random.Generator) -> float:
    return float(np.mean([FULL[name](simulated(200_000, rng, threshold=THRESHOLD)) for _ in range(3)]))


def _ends(ledger: Ledger, seed: int, *, guarded: bool) -> dict[str, tuple[float, float]]:
    with ExitStack() as stack:
        if not guarded:
            for module in ("estimates", "calibration_estimates"):
                stack.enter_context(patch(f"demur.audit.report.{module}.few_drawn", lambda *_: ""))
        settings = Settings(replicates=199, seed=seed, delta=DELTA)
        document = audit(ledger, AuditSettings(settings=settings)).document
    return {
        one["name"]: tuple(np.nan if one[end] is None else one[end] for end in ("lower", "upper"))  # type: ignore[misc]
        for one in document["estimates"]
        if one["of"] in ("", "confidence")
    }


def _share_inside(found: Sequence[Mapping[str, tuple[float, float]]], name: str, truth: float) -> str:
    ends: Array = np.array([one[name] for one in found])
    shown = ~np.isnan(ends[:, 0])
    if not shown.any():
        return "-"
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    return f"{inside[shown].mean():.0%}"


def steps(runs: int) -> int:
    return runs * (len(SITUATIONS) * len(LABELS) + len(FEW))


TABLES: Mapping[str, Callable[..., str]] = {"situations": situations, "few labels": few_labels}
"""By their names in the document."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=60, help="audits of each line")
    parser.add_argument("--table", nargs="+", choices=TABLES, default=["situations"], help="which tables")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced")
    options = parser.parse_args(arguments)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("auditing", total=steps(options.runs))
        made = {one: TABLES[one](runs=options.runs, step=lambda: bar.advance(task)) for one in options.table}
    if options.write:
        document = options.write.read_text(encoding="utf-8")
        options.write.write_text(with_tables(document, made, partly=True), encoding="utf-8")
        print(f"{options.write} is written.")
    else:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in made.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
