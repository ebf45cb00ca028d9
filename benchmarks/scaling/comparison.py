"""A measured point beside what the model says of it, and beside a guess without a model."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.scaling.costs import fitted_points
from benchmarks.scaling.measurement import Point
from benchmarks.scaling.plan import error
from benchmarks.scaling.service import Predicted


@dataclass(frozen=True)
class Comparison:
    """A point beside what is said of it."""

    point: Point
    told: Predicted
    naive: float | None
    """Predictions a second without a model: `naive`."""

    fitted: bool

    @property
    def errors(self) -> tuple[float, float, float]:
        """Return the errors of predictions a second, of p50 and of p99, as shares of what was measured."""
        point, told = self.point, self.told
        return error(told.per_second, point.per_second), error(told.p50, point.p50), error(told.p99, point.p99)


def naive(point: Point, points: Sequence[Point], cores: float) -> float | None:
    """Predict predictions a second without a model: what the smallest service gave under the same load, times the
    processors that others left. None for the smallest service itself, and for a load that it was not asked."""
    smallest = fitted_points(points, point.layout)
    if point in smallest:
        return None
    there = [one for one in smallest if (one.rows, one.callers) == (point.rows, point.callers)]
    there.sort(key=lambda one: (one.apart != point.apart, one.apart))
    if not there:
        return None
    left = [max(cores - one.others / one.seconds, 0.0) for one in (point, there[0])]
    return there[0].per_second * left[0] / left[1] if left[1] else None
