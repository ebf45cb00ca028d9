"""An audit: what the log says about the promise, as one page to read and one file of numbers."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from audit import plots
from audit.calibration import binned
from audit.categories import encode
from audit.findings import Classes, Finding, Judged, TopLabels, findings, score_lines
from audit.label_frequency import f1_by_frequency
from audit.labels import Stratum, answered, labelled, missing_labels, quality, strata
from audit.score_choice import ScoreChoice, choose
from audit.selective import rc_curve, thinned
from traffic.dataset import Traffic
from traffic.outcomes import LATEST, Precedence, rule_in_words
from uncertainty.checks import Array, Mask

CURVE_POINTS = 500
"""Points of the risk-coverage curve in the JSON file, evenly spaced; the area is that of all of them."""


class NothingToAudit(ValueError):
    """There are no records in the range, or none of them has a label."""


@dataclass(frozen=True, kw_only=True)
class FittedLabels:
    """How often each label held in the data that the artifact in force was fitted on."""

    counts: Mapping[str, int] = field(default_factory=dict)
    n: int = 0


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What was found, and the rows behind the pictures."""

    model: str
    since: datetime
    until: datetime
    artifacts: Mapping[str, int]
    """How many records each artifact decided; "none" where the model gave no output."""

    strata: list[Stratum]
    missing: str
    counts_by: str
    """Which of several outcomes of a record counts, in words."""

    n_undefined: int
    """Labelled records without a confidence; they count as held, and enter no score."""

    findings: list[Finding]
    of_some: Mapping[str, int]
    """How many rows have a score that others lack: because a cheaper one had settled them, or their artifact did not
    compute it. Findings about it are of those rows, and it is compared with no other."""

    choice: ScoreChoice
    rows: Judged

    def as_json(self) -> str:
        document: dict[str, Any] = {
            "model": self.model,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "artifacts": dict(self.artifacts),
            "labels": self.missing,
            "outcomes_count_by": self.counts_by,
            "undefined": self.n_undefined,
            "findings": [asdict(line) for line in self.findings],
            "scores": self.choice.as_json(),
            "strata": [asdict(stratum) for stratum in self.strata],
            "risk_coverage": self._curve(),
            "reliability": {
                "before": None if self.rows.raw_confidence is None else self._bins(self.rows.raw_confidence),
                "after": self._bins(self.rows.confidence),
            },
        }
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)

    def _curve(self) -> dict[str, list[float]]:
        curve = rc_curve(1 - self.rows.quality, -self.rows.confidence)
        shown = thinned(len(self.rows), CURVE_POINTS)
        return {"coverage": curve.coverage[shown].tolist(), "risk": curve.risk[shown].tolist()}

    def _bins(self, confidence: Array) -> list[dict[str, Any]]:
        return [
            {"count": b.count, "confidence": b.confidence, "accuracy": b.accuracy}
            if b.count
            else {"count": 0, "confidence": None, "accuracy": None}
            for b in binned(confidence, self.rows.quality)
        ]

    def as_html(self) -> str:
        pages = Environment(loader=PackageLoader("audit"), autoescape=select_autoescape())
        return pages.get_template("report.html").render(
            audit=self,
            lines={line.name: line for line in self.findings},
            choice=self.choice,
            risk_coverage=Markup(plots.risk_coverage(self.rows)),  # noqa: S704 - our own SVG
            reliability=Markup(plots.reliability(self.rows)),  # noqa: S704 - our own SVG
        )


def audit(
    traffic: Traffic,
    *,
    model: str,
    since: datetime | None = None,
    until: datetime | None = None,
    fitted: FittedLabels | None = None,
    precedence: Precedence = LATEST,
) -> Audit:
    """Measure the labelled part of the traffic, and say what part that is, and by which rule its outcomes count."""
    if len(traffic) == 0:
        raise NothingToAudit(f"there are no records of {model!r} in this range; widen it, or send traffic first")
    known = labelled(traffic)
    if not known.any():
        raise NothingToAudit(
            f"none of the {len(traffic):,} records of {model!r} in this range has an outcome yet;"
            " review held cases at /review/, or post outcomes to /v1/predictions/{id}/outcome"
        )
    defined = known & ~np.isnan(traffic.confidence) & ~np.isnan(traffic.top_probability)
    if not defined.any():
        raise NothingToAudit(f"no labelled record of {model!r} in this range has a confidence")
    rows = judged(traffic, defined, fitted or FittedLabels())
    lines = findings(rows)
    partly = {name: values[defined] for name, values in traffic.scores.items() if name not in rows.scores}
    some = {name: own for name, values in partly.items() if (own := _of_some(rows, name, values))}
    return Audit(
        model=model,
        since=since or traffic.times[0],
        until=until or traffic.times[-1],
        artifacts=Counter(name or "none" for name in traffic.artifacts),
        strata=strata(traffic),
        missing=missing_labels(traffic),
        counts_by=rule_in_words(precedence),
        n_undefined=int((known & ~defined).sum()),
        findings=[*lines, *(line for own in some.values() for line in own)],
        of_some={name: own[0].n for name, own in some.items()},
        choice=choose(rows, lines),
        rows=rows,
    )


def judged(traffic: Traffic, rows: Mask, fitted: FittedLabels) -> Judged:
    """The rows that are True, each of which has an outcome and a confidence, as arrays."""
    index = np.flatnonzero(rows).tolist()
    truth = [traffic.outcomes[i] for i in index]
    guess = [traffic.predictions[i] for i in index]
    told = [(t, g) for t, g in zip(truth, guess, strict=True) if t is not None and g is not None]
    exclusive = all(isinstance(t, str) and isinstance(g, str) for t, g in told)
    classes = None
    if exclusive:
        (true, predicted), _ = encode(y_true=truth, y_pred=guess)
        classes = Classes(predicted=predicted, true=true)
    covered = [traffic.covered[i] for i in index]
    return Judged(
        quality=quality(traffic)[rows],
        answered=answered(traffic)[rows],
        confidence=traffic.confidence[rows],
        raw_confidence=traffic.top_probability[rows] if exclusive else None,
        scores={
            name: values[rows]
            for name, values in traffic.scores.items()
            if not np.isnan(values[rows]).any()  # others cannot be compared
        },
        classes=classes,
        top=_top(traffic, index),
        sets=np.column_stack([traffic.set_size[rows], np.array(covered, dtype=np.float64)])
        if exclusive and None not in covered
        else None,
        buckets=f1_by_frequency([t for t, _ in told], [g for _, g in told], fitted.counts, fitted.n),
    )


def _of_some(rows: Judged, name: str, u: Array) -> list[Finding]:
    """Lines about a score on the rows that have it."""
    known = np.flatnonzero(~np.isnan(u))
    return list(score_lines(rows.rows(known), name, u[known])) if len(known) else []


def _top(traffic: Traffic, index: Sequence[int]) -> TopLabels | None:
    """The most probable labels of these rows, if all of them have as many."""
    tops = [traffic.tops[i] for i in index]
    known = [top for top in tops if top is not None]
    if len(known) < len(tops) or len({len(labels) for labels, _, _ in known}) != 1:
        return None
    return TopLabels(
        probabilities=np.array([probabilities for _, probabilities, _ in known]),
        calibrated=np.array([calibrated for _, _, calibrated in known]),
        hits=np.array(
            [
                [label in (traffic.outcomes[i] or ()) for label in labels]
                for i, (labels, _, _) in zip(index, known, strict=True)
            ]
        ),
    )
