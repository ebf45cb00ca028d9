"""The audit of one model over a range of time: every number as JSON, the same as a page to read and print."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

from audit import plots
from audit.calibration import calibration_bins
from audit.findings import Finding, Judged, findings
from audit.labels import Stratum, answered, correct, labelled, missing_labels, strata
from audit.selective import rc_curve, thinned
from traffic.dataset import Traffic
from uncertainty.checks import Array

CURVE_POINTS = 500
"""Points of the risk-coverage curve in the JSON file, evenly spaced; the area is that of all of them."""


class NothingToAudit(ValueError):
    """There are no records in the range, or none of them has a label."""


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
    n_undefined: int
    """Labelled records without a confidence; they count as held, and enter no score."""

    findings: list[Finding]
    rows: Judged

    def as_json(self) -> str:
        document: dict[str, Any] = {
            "model": self.model,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "artifacts": dict(self.artifacts),
            "labels": self.missing,
            "undefined": self.n_undefined,
            "findings": [asdict(line) for line in self.findings],
            "strata": [asdict(stratum) for stratum in self.strata],
            "risk_coverage": self._curve(),
            "reliability": {
                "before": self._bins(self.rows.raw_confidence),
                "after": self._bins(self.rows.confidence),
            },
        }
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)

    def _curve(self) -> dict[str, list[float]]:
        curve = rc_curve(1 - self.rows.correct, -self.rows.confidence)
        shown = thinned(len(self.rows), CURVE_POINTS)
        return {"coverage": curve.coverage[shown].tolist(), "risk": curve.risk[shown].tolist()}

    def _bins(self, confidence: Array) -> list[dict[str, Any]]:
        return [
            {"count": b.count, "confidence": b.confidence, "accuracy": b.accuracy}
            if b.count
            else {"count": 0, "confidence": None, "accuracy": None}
            for b in calibration_bins(confidence, self.rows.correct)
        ]

    def as_html(self) -> str:
        pages = Environment(loader=PackageLoader("audit"), autoescape=select_autoescape())
        lines = {line.name: line for line in self.findings}
        scores = [name.removeprefix("prr.") for name in lines if name.startswith("prr.")]
        return pages.get_template("report.html").render(
            audit=self,
            lines=lines,
            scores=scores,
            risk_coverage=Markup(plots.risk_coverage(self.rows)),  # noqa: S704 - our own SVG
            reliability=Markup(plots.reliability(self.rows)),  # noqa: S704 - our own SVG
        )


def audit(traffic: Traffic, *, model: str, since: datetime | None = None, until: datetime | None = None) -> Audit:
    """Measure the labelled part of the traffic, and say what part that is."""
    if len(traffic) == 0:
        raise NothingToAudit(f"there are no records of {model!r} in this range; widen it, or send traffic first")
    known = labelled(traffic)
    if not known.any():
        raise NothingToAudit(
            f"none of the {len(traffic):,} records of {model!r} in this range has an outcome yet;"
            " review held cases at /review/, or post outcomes to /v1/predictions/{id}/outcome"
        )
    defined = known & ~np.isnan(traffic.confidence) & ~np.isnan(traffic.top_probability)
    rows = Judged(
        correct=correct(traffic)[defined].astype(np.float64),
        answered=answered(traffic)[defined],
        confidence=traffic.confidence[defined],
        raw_confidence=traffic.top_probability[defined],
        scores={
            name: values[defined]
            for name, values in traffic.scores.items()
            if not np.isnan(values[defined]).any()  # a score that another artifact did not compute
        },
    )
    if len(rows) == 0:
        raise NothingToAudit(f"no labelled record of {model!r} in this range has a confidence")
    return Audit(
        model=model,
        since=since or traffic.times[0],
        until=until or traffic.times[-1],
        artifacts=Counter(name or "none" for name in traffic.artifacts),
        strata=strata(traffic),
        missing=missing_labels(traffic),
        n_undefined=int((known & ~defined).sum()),
        findings=findings(rows),
        rows=rows,
    )
