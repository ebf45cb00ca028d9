"""Why an audit found what it found: the parts that carry the excess, what changed, and what calibration did."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.intervals import normal_quantile
from demur.audit.metrics.multiplicity import holm
from demur.audit.report.cells import RESAMPLED
from demur.audit.report.estimates import named
from demur.audit.report.grounds import MIN_EVENTS, MIN_LABELLED, Estimate, over
from demur.audit.report.judgement import PromiseJudgement, PromiseVerdict
from demur.audit.report.promise_evidence import ANSWERS, SETS, part_evidence
from demur.audit.report.resamples import FEWEST_UNITS
from demur.audit.report.risks import RiskEvidence, missed, risks
from demur.audit.report.subjects import PolicyWords

Cells = NDArray[np.intp]

PARTS = ("group", "predicted label", "time", "artifact")
"""Ways to sort records in which contributors are looked for."""

MOST, MOST_OF_A_KIND = 6, 3
"""Contributors that are named, and those of one way to sort records."""

PROMISED, AIMED, AVERAGE = "promised", "aimed at", "average"
"""What the share of a part is held against: a promise, the aim of a policy without one, or the share of all."""

BETTER, WORSE, UNCLEAR = "better", "worse", "no clear change"

CALIBRATION = ("ece", "brier")


@dataclass(frozen=True, kw_only=True)
class Level:
    """What the parts are held against."""

    about: str
    kind: str
    target: float


def why(
    evidence: RiskEvidence,
    estimates: Sequence[Estimate],
    judgements: Sequence[PromiseJudgement],
    abouts: Mapping[str, str],
    policy: PolicyWords | None,
    expected: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the facts behind a verdict, as plain numbers."""
    level = level_of(estimates, judgements, abouts, policy)
    parts, looked_at = contributors(evidence, level) if level else ([], 0)
    return {
        "level": level and {"about": level.about, "kind": level.kind, "target": level.target},
        "contributors": parts,
        "parts_looked_at": looked_at,
        "drift": _drift(evidence, estimates, expected),
        "calibration": [one for name in CALIBRATION if (one := _calibrated(estimates, name))],
    }


def level_of(
    estimates: Sequence[Estimate],
    judgements: Sequence[PromiseJudgement],
    abouts: Mapping[str, str],
    policy: PolicyWords | None,
) -> Level | None:
    """Return what the parts are held against: the first broken promise, else the first one, else the aim of the policy,
    else the share of all answers that is wrong. None where that is not known."""
    measured = [one for one in judgements if abouts.get(one.share) in (ANSWERS, SETS)]
    broken = [one for one in measured if one.verdict is PromiseVerdict.BROKEN]
    for one in (*broken, *measured):
        return Level(about=abouts[one.share], kind=PROMISED, target=one.target)
    if policy and policy.aim is not None:
        return Level(about=ANSWERS, kind=AIMED, target=policy.aim)
    risk = named(estimates, "selective_risk")
    if risk is None or risk.value is None:
        return None
    return Level(about=ANSWERS, kind=AVERAGE, target=risk.value)


def contributors(evidence: RiskEvidence, level: Level) -> tuple[list[dict[str, Any]], int]:
    """Return the parts whose share of misses is above the level and above the share of all, the largest excess first;
    and how many parts were looked at.

    A part is `sure` if a test says so, corrected for the number of parts that are looked at (Holm 1979). The test takes
    the share of all as known; a large part is then called sure too seldom, since it is in that share itself.
    """
    found = risks(evidence, answered=True) if level.about == ANSWERS else missed(evidence)
    n_of = evidence.counts["answered" if level.about == ANSWERS else "set_n"]
    cells = [(dimension.name, name, cell) for dimension, name, cell in _cells(evidence) if dimension.name in PARTS]
    alone = {by for by, _, _ in cells if sum(by == other for other, _, _ in cells) == 1}
    cells = [one for one in cells if one[0] not in alone]
    looked_at = [one for one in cells if found[one[2]].grounds.labelled]
    bar = max(level.target, found[0].value or 0.0)
    p_values = [_p_value(evidence, level.about, bar, found[cell], cell) for _, _, cell in looked_at]
    sure = set(holm(p_values, evidence.by.settings.delta / 2).rejected) if p_values else set()
    rows = [
        _contributor(by, name, found[cell], float(n_of[cell]), level.target, sure=at in sure)
        for at, (by, name, cell) in enumerate(looked_at)
        if (found[cell].value or 0.0) > bar
    ]
    rows.sort(key=lambda one: (not one["sure"], -one["excess"]))
    seen: Counter[str] = Counter()
    few = []
    for one in rows:
        seen[one["by"]] += 1
        few += [one] if seen[one["by"]] <= MOST_OF_A_KIND else []
    return few[:MOST], len(looked_at)


def _cells(evidence: RiskEvidence) -> list[tuple[Any, str, int]]:
    """Every part with a record: how it is sorted, its name, and its place in the tables."""
    places, at = [], 0
    for dimension in evidence.by.dimensions:
        for cell, name in enumerate(dimension.cells, start=at):
            if evidence.counts["n"][cell]:
                places.append((dimension, name, cell))
        at += len(dimension.cells)
    return places


def _p_value(evidence: RiskEvidence, about: str, bar: float, one: Estimate, cell: int) -> float:
    """How surprising so many misses are if the share of the part is at the bar; 1 where it is not above."""
    if one.value is None or one.value <= bar:
        return 1.0
    tested = part_evidence(evidence, about, one, cell, bar, None)
    return 1.0 if tested is None else tested.p_broken


def _contributor(by: str, name: str, one: Estimate, n: float, target: float, *, sure: bool) -> dict[str, Any]:
    value = one.value or 0.0
    return {
        "by": by,
        "name": name,
        "n": int(n),
        "value": value,
        "lower": one.lower,
        "upper": one.upper,
        "labelled": one.grounds.labelled,
        "errors": one.grounds.events,
        "excess": n * (value - target),
        "excess_lower": None if one.lower is None else n * (one.lower - target),
        "excess_upper": None if one.upper is None else n * (one.upper - target),
        "sure": sure,
    }


def _drift(evidence: RiskEvidence, estimates: Sequence[Estimate], expected: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the second half of the range is unlike the first, and whether confidence foresaw the errors."""
    risk = named(estimates, "selective_risk")
    foreseen = expected.get("estimate")
    surprise = None
    if risk and risk.lower is not None and risk.upper is not None and foreseen is not None:
        surprise = "more" if foreseen < risk.lower else "fewer" if foreseen > risk.upper else "as many"
    return {"expected": foreseen, "surprise": surprise, **_halves(evidence)}


def _halves(evidence: RiskEvidence) -> dict[str, Any]:
    """The share answered, and the share of answers that are wrong, in two halves of the records by time."""
    cells = np.array([cell for dimension, _, cell in _cells(evidence) if dimension.name == "time"], dtype=np.intp)
    counts = evidence.counts
    n = counts["n"][cells]
    if len(cells) < 2:
        return {"answered": None, "risk": None}
    cut = 1 + int(np.argmin(np.abs(np.cumsum(n)[:-1] - n.sum() / 2)))
    first, then = cells[:cut], cells[cut:]
    return {"answered": _answered_change(evidence, first, then), "risk": _risk_change(evidence, first, then)}


def _answered_change(evidence: RiskEvidence, first: Cells, then: Cells) -> dict[str, Any]:
    n = [float(evidence.counts["n"][half].sum()) for half in (first, then)]
    shares = [float(evidence.counts["answered"][half].sum()) / of for half, of in zip((first, then), n, strict=True)]
    reach = nan
    if not evidence.by.clustered:
        error = np.sqrt(sum(share * (1 - share) / of for share, of in zip(shares, n, strict=True)))
        reach = normal_quantile(evidence.by.settings.delta) * float(error)
    return _change(shares[0], shares[1], shares[1] - shares[0] - reach, shares[1] - shares[0] + reach)


def _risk_change(evidence: RiskEvidence, first: Cells, then: Cells) -> dict[str, Any] | None:
    """None where one of the halves has too few labels of answers, or both have too few errors."""
    counts, below, above = evidence.counts, RESAMPLED.index("a_w"), RESAMPLED.index("a_w_loss")
    labelled = [float(counts["a_labelled"][half].sum()) for half in (first, then)]
    units = [(evidence.tally.by_unit[:, half, below].sum(axis=1) > 0).sum() for half in (first, then)]
    wrong = float(counts["a_wrong"][np.concatenate((first, then))].sum())
    if min(labelled) < MIN_LABELLED or min(units) < FEWEST_UNITS or wrong < MIN_EVENTS:
        return None
    values = [float(over(counts["a_w_loss"][half].sum(), counts["a_w"][half].sum())) for half in (first, then)]
    again = [
        over(evidence.by_unit[:, half, above].sum(axis=1), evidence.by_unit[:, half, below].sum(axis=1))
        for half in (first, then)
    ]
    interval = evidence.resamples.interval(again[1] - again[0])
    return _change(values[0], values[1], interval.lower, interval.upper)


def _change(before: float, after: float, lower: float, upper: float) -> dict[str, Any]:
    return {"before": before, "after": after, "difference": after - before, "lower": lower, "upper": upper}


def _calibrated(estimates: Sequence[Estimate], name: str) -> dict[str, Any] | None:
    """Whether a metric of calibration is better after the fit: only intervals that lie apart say so."""
    before, after = named(estimates, f"{name}_before"), named(estimates, name)
    if before is None or after is None or before.value is None or after.value is None:
        return None
    word = UNCLEAR
    if before.lower is not None and before.upper is not None and after.lower is not None and after.upper is not None:
        word = WORSE if after.lower > before.upper else BETTER if after.upper < before.lower else UNCLEAR
    return {
        "metric": name,
        "before": {"value": before.value, "lower": before.lower, "upper": before.upper},
        "after": {"value": after.value, "lower": after.lower, "upper": after.upper},
        "says": word,
    }
