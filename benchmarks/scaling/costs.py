"""What a request, a row, a call of a host and a commit cost each part, as least squares find it in measured points."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from scipy.optimize import nnls

from benchmarks.scaling.measurement import BadMeasurement, Point

PAID_FOR = {
    "caller": ("requests", "predictions"),
    "proxy": ("requests", "predictions"),
    "gateway": ("requests", "predictions", "calls"),
    "host": ("predictions", "calls"),
    "postgres": ("predictions", "commits"),
}
"""What the time of each part is divided among. A gateway's share of a commit is in its share of a call."""

FEWEST = 4
"""Points that a fit needs: as many as it has unknowns, and one more."""


@dataclass(frozen=True)
class Cost:
    """Seconds of processor time of one part."""

    requests: float = 0.0
    predictions: float = 0.0
    calls: float = 0.0
    commits: float = 0.0

    def per_row(self, rows: int, call: int, commit: int) -> float:
        """Seconds for a prediction, with so many of them in a request, in a call and in a commit."""
        return self.requests / rows + self.predictions + self.calls / call + self.commits / commit


@dataclass(frozen=True)
class Costs:
    """Costs of all parts, and what else a model of the service has to know."""

    parts: dict[str, Cost]
    background: float
    """Processors that the rest of Ray uses, whatever is asked."""

    cv: float
    """Coefficient of variation of a piece of work."""

    flush_seconds: float
    flush_cv: float
    wal_bytes: float
    """For each prediction."""

    def scaled(self, factor: float) -> "Costs":
        """Return costs with processor times that are so many times as large."""
        found = self
        for part in self.parts:
            found = found.larger(part, factor)
        return found

    def larger(self, part: str, factor: float) -> "Costs":
        """Return costs of which those of one part are so many times as large; `flush` is a part here."""
        if part == "flush":
            return replace(self, flush_seconds=self.flush_seconds * factor)
        one = self.parts[part]
        grown = Cost(*(factor * value for value in (one.requests, one.predictions, one.calls, one.commits)))
        return replace(self, parts={**self.parts, part: grown})


def fitted_points(points: Sequence[Point], layout: str, most_others: float = inf) -> list[Point]:
    """Those of a layout with the fewest gateways and hosts, measured while others used no more than so many processors:
    costs are fitted on them, and all points are predicted."""
    there = [point for point in points if point.layout == layout]
    if not there:
        known = sorted({point.layout for point in points})
        raise BadMeasurement(f"nothing was measured on {layout}; there is: {', '.join(known)}")
    fewest = min((point.gateways + point.hosts, point.gateways) for point in there)
    return [
        point
        for point in there
        if (point.gateways + point.hosts, point.gateways) == fewest and point.others / point.seconds <= most_others
    ]


def fit(points: Sequence[Point], *, flush_seconds: float, flush_cv: float) -> Costs:
    """Divide processor time among what was done, so that errors in percent are least, and no cost is negative.

    The coefficient of variation is that of latencies where one caller asks alone: there nothing waits, so the spread is
    that of the work itself. A request is some `STEPS` pieces of work after each other, each of which varies by itself.
    """
    if len(points) < FEWEST:
        raise BadMeasurement(f"{len(points)} points are too few to fit costs; measure at least {FEWEST} loads")
    parts = {part: _cost(points, part, names) for part, names in PAID_FOR.items()}
    alone = [point.cv for point in points if point.callers == 1]
    if not alone:
        raise BadMeasurement("no point has one caller alone, which tells how much work varies")
    return Costs(
        parts=parts,
        background=float(np.median([point.spent["ray"] / point.seconds for point in points])),
        cv=float(np.median(alone)) * STEPS**0.5,
        flush_seconds=flush_seconds,
        flush_cv=flush_cv,
        wal_bytes=sum(point.wal_bytes for point in points) / sum(point.predictions for point in points),
    )


STEPS = 4
"""Large pieces of work that a request waits for: gateway before and after, host, PostgreSQL."""


def _cost(points: Sequence[Point], part: str, names: Sequence[str]) -> Cost:
    done = np.array([[getattr(point, name) for name in names] for point in points], dtype=float)
    spent = np.array([point.spent[part] for point in points])
    if (spent <= 0).any():
        raise BadMeasurement(f"a point has no processor time of: {part}")
    found, _ = nnls(done / spent[:, None], np.ones(len(spent)))
    return Cost(**dict(zip(names, found.tolist(), strict=True)))
