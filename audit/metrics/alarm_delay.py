"""How soon the monitor of the risk alarms after the risk rises, by simulation; and how many checks a delay takes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from demur.audit.metrics.risk_monitor import RiskMonitor, new_risk_monitor
from demur.uncertainty.checks import Array, InvalidInput, fraction, real_number, whole_number

QUIET = 8_000
"""Labels of the quiet time that are drawn. What was bet before so many is lost, whatever its stake."""

PORTION = 1_024
STEPS = 10
"""Halvings of the interval, in logarithms, that holds the rate."""

LEAST_RATE = 1e-6

LONGEST = 10**12
"""Labels of a quiet time; a longer one makes no difference that a double could hold."""


@dataclass(frozen=True, kw_only=True)
class Rise:
    """A risk that is steady for a while, and higher from then on."""

    target: float
    """What the monitor allows."""

    before: float
    after: float
    delta: float = 0.05
    """How probable a false alarm is, in all time."""

    def __post_init__(self) -> None:
        for name in ("target", "before", "after", "delta"):
            fraction(name, real_number(name, getattr(self, name)), open_high=True)
        if self.before > self.target:
            raise InvalidInput(
                f"before is {self.before:g}, above the target of {self.target:g}: that is a broken promise"
            )
        if self.after <= self.target:
            raise InvalidInput(f"after is {self.after:g}, not above the target of {self.target:g}: no alarm is due")


def alarm_delays(rise: Rise, labels_before: Any, *, most: Any, streams: Any = 60, seed: int = 0) -> Array:
    """Return the checked answers from the rise to the alarm [streams], inf where `most` bring none.

    Answers are checked with one probability. Streams that alarm before the rise are left out.
    """
    quiet, longest = whole_number("labels_before", labels_before), whole_number("most", most, least=1)
    rng = np.random.default_rng(seed)
    found = (_delay(rise, quiet, longest, rng) for _ in range(whole_number("streams", streams, least=1)))
    return np.array([one for one in found if one is not None])


def rate_for_delay(
    rise: Rise, answers_per_day: Any, days: Any, *, quiet_days: Any = 30, streams: Any = 60
) -> float | None:
    """Return the lowest rate of spot checks with which half of the alarms come within `days` of the rise, after
    `quiet_days` at the risk before; None where checking every answer is not enough."""
    per_day, within = real_number("answers_per_day", answers_per_day, above=0), real_number("days", days, above=0)
    calm = real_number("quiet_days", quiet_days, least=0)

    def enough(rate: float) -> bool:
        allowed = int(rate * per_day * within)
        if allowed < 1:
            return False
        delays = alarm_delays(rise, int(rate * per_day * calm), most=allowed, streams=streams)
        return len(delays) > 0 and bool(np.isfinite(delays).mean() >= 0.5)

    if not enough(1.0):
        return None
    low, high = np.log(LEAST_RATE), 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(float(np.exp(middle))) else (middle, high)
    return float(np.exp(high))


def _delay(rise: Rise, quiet: int, most: int, rng: np.random.Generator) -> float | None:
    """Labels from the rise to the alarm; None where the alarm came before."""
    monitor = _fed(new_risk_monitor(rise.target, 1.0, delta=rise.delta), rise.before, min(quiet, QUIET), rng)
    if monitor.alarm_at is not None:
        return None
    began, done = monitor.n_records, 0
    monitor = replace(monitor, n_labelled=max(min(quiet, LONGEST), monitor.n_labelled))
    while done < most:
        n = min(PORTION, most - done)
        monitor = _fed(monitor, rise.after, n, rng)
        done += n
        if monitor.alarm_at is not None:
            return float(monitor.alarm_at - began)
    return np.inf


def _fed(monitor: RiskMonitor, risk: float, n: int, rng: np.random.Generator) -> RiskMonitor:
    if n == 0:
        return monitor
    known = np.ones(n)
    return monitor.updated((rng.random(n) < risk).astype(np.float64), known, known)
