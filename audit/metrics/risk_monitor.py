"""An alarm about the risk of answered records that may be looked at after every label (METHODS 9.4).

It bets against the hypothesis that the promise is kept. A bettor in a fair game seldom becomes rich: his wealth ever
reaches 1 / delta with probability at most delta (Ville 1939). So wealth is evidence, whenever one looks. The bets are
those of Waudby-Smith & Ramdas (2023), as Podkopaev & Ramdas (2022) use them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from demur.audit.metrics.weighted_rows import SMALLEST, at, column_of, label_draw, least_probability
from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    Mask,
    fraction,
    one_of,
    real_number,
    same_length,
    unit_interval,
    whole_number,
)

DIRECTIONS = ("above", "below")
STARTS = ("first", "any", "each")
STAKES = {
    "above": tuple(2.0**-k for k in range(1, 11)),  # the best stake is about how far the risk is above the target
    "below": tuple(k / 10 for k in range(1, 10)),
}
"""The capital is split in equal parts, each of which stakes its own share on every label: nothing is tuned."""

SLACK = 1e-12
BLOCK = 4096
"""After so many labels sums of logarithms start from 0 again, so that they keep their digits."""


@dataclass(frozen=True, kw_only=True)
class RiskMonitor:
    """Where the bets stand after some records: all that a later look needs, as plain numbers.

    `above` bets against "the risk of each answered record, given the past, is at most `target`": an alarm says that
    the promise is broken. `below` bets against "at least `target`": an alarm certifies that it is kept. Either is
    raised wrongly with probability at most `delta` in all time; with the start `each`, once in at least 1 / delta
    labels on average.
    """

    target: float
    floor: float
    """The least label probability, declared in advance."""

    delta: float
    direction: str
    start: str
    """`first`: all capital bets from the first label on. `any`: a part is kept for bets that begin later, so that a
    long good past does not use it up. `each`: new capital at every label, which detects fastest."""

    stakes: Sequence[float]

    n_records: int = 0
    n_labelled: int = 0
    growth: Sequence[float] = field(default=())
    """For each stake, ln prod (1 + s g) over the labels since the last multiple of `BLOCK`."""

    entered: Sequence[float] = field(default=())
    """For each stake, ln of the capital that has entered, as it was worth then; -inf for none."""

    log_wealth: float = 0.0
    highest: float = 0.0
    """The largest `log_wealth` so far."""

    alarm_at: int | None = None
    """The number of the first record, from 1, at which wealth had reached 1 / delta."""

    @property
    def p_value(self) -> float:
        """How surprising the highest wealth is if the hypothesis holds; valid at any time. `each` has none: NaN."""
        return np.nan if self.start == "each" else float(np.exp(-max(0.0, self.highest)))

    def updated(self, errors: Any, labelled: Any, probability: Any) -> Self:
        """Return the monitor after the next answered records, none or more, as they are given to `risk_monitor`.

        In whatever portions records come, the numbers are the same to the last digit. Hand every record in once.
        """
        given = {"errors": errors, "labelled": labelled, "probability": probability}
        if not any(len(column_of(name, values)) for name, values in given.items()):
            return self
        return self.followed(errors, labelled, probability)[0]

    def restarted(self) -> Self:
        """Return the monitor as it was before the first record: after an alarm that has been dealt with."""
        return replace(self, n_records=0, n_labelled=0, alarm_at=None, **_opening(self.start, len(self.stakes)))

    def as_json(self) -> dict[str, Any]:
        """The numbers, with None for -inf, which JSON does not know."""
        return {name: _without_infinity(value) for name, value in asdict(self).items()}

    def followed(self, errors: Any, labelled: Any, probability: Any) -> tuple[Self, Array]:
        """The monitor after these records, and ln of the wealth [n] after each."""
        known, e, ratio = labelled_answers(errors, labelled, probability, self.floor)
        if self.direction == "above":
            gains = ratio * (e / self.target - 1)
        else:
            gains = ratio * ((self.target - e) / (1 - self.target))
        growth, entered, path = _bet(self, gains)
        wealth = np.concatenate([[self.log_wealth], path])[np.cumsum(known)]
        reached = np.flatnonzero(wealth >= -np.log(self.delta) - SLACK)
        alarm_at = self.alarm_at
        if alarm_at is None and len(reached):
            alarm_at = self.n_records + int(reached[0]) + 1
        after = replace(
            self,
            n_records=self.n_records + len(known),
            n_labelled=self.n_labelled + len(path),
            growth=tuple(growth.tolist()),
            entered=tuple(entered.tolist()),
            log_wealth=float(wealth[-1]),
            highest=max(self.highest, float(wealth.max())),
            alarm_at=alarm_at,
        )
        return after, wealth


@dataclass(frozen=True, kw_only=True, eq=False)
class RiskAlarm:
    """What a monitor says of a list of records."""

    log_wealth: Array
    """[n], after each record; before the first label 0, or -inf with the start `each`."""

    alarm_at: int | None
    p_value: float


def new_risk_monitor(
    target: Any,
    floor: Any,
    *,
    delta: Any = 0.05,
    direction: Any = "above",
    start: Any = "any",
    stakes: Any = None,
) -> RiskMonitor:
    """Return a monitor that has seen nothing. Several monitors share one error level if `delta` is split over them.

    `each` has no error level but a rate of alarms: use a delta of 1e-4 there.
    """
    theta = fraction("target", real_number("target", target, least=SMALLEST), open_high=True)
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    one_of("direction", direction, DIRECTIONS)
    one_of("start", start, STARTS)
    shares = unit_interval("stakes", STAKES[direction] if stakes is None else stakes)
    if shares.min() <= 0 or shares.max() >= 1:
        raise InvalidInput("stakes holds 0 or 1, which bets nothing, or may lose everything at once")
    return RiskMonitor(
        target=theta,
        floor=least_probability(floor, np.empty(0)),
        delta=float(delta),
        direction=direction,
        start=start,
        stakes=tuple(shares.tolist()),
        **_opening(start, len(shares)),
    )


def risk_monitor(
    errors: Any,
    labelled: Any,
    probability: Any,
    target: Any,
    floor: Any,
    delta: Any = 0.05,
    direction: Any = "above",
    start: Any = "any",
    stakes: Any = None,
) -> RiskAlarm:
    """Return the wealth after each answered record [n], in the order in which outcomes became final.

    `errors` are in [0, 1], read where `labelled` is 1; `probability` is the logged chance of that label. The order must
    not depend on the outcomes: if errors are decided faster than the others, hand in blocks whose review is complete.
    """
    fresh = new_risk_monitor(target, floor, delta=delta, direction=direction, start=start, stakes=stakes)
    after, wealth = fresh.followed(errors, labelled, probability)
    return RiskAlarm(log_wealth=wealth, alarm_at=after.alarm_at, p_value=after.p_value)


def risk_monitor_from_json(document: Mapping[str, Any]) -> RiskMonitor:
    """Return the monitor that `as_json` wrote down."""
    kept = dict(document)
    settings = ("target", "floor", "delta", "direction", "start", "stakes")
    try:
        fresh = new_risk_monitor(**{name: kept.pop(name) for name in settings})
        alarm_at = kept.pop("alarm_at")
        monitor = replace(
            fresh,
            n_records=whole_number("n_records", kept.pop("n_records")),
            n_labelled=whole_number("n_labelled", kept.pop("n_labelled")),
            growth=tuple(map(_with_infinity, kept.pop("growth"))),
            entered=tuple(map(_with_infinity, kept.pop("entered"))),
            log_wealth=_with_infinity(kept.pop("log_wealth")),
            highest=_with_infinity(kept.pop("highest")),
            alarm_at=None if alarm_at is None else whole_number("alarm_at", alarm_at, least=1),
        )
    except (KeyError, TypeError) as error:
        raise InvalidInput(f"this is no state of a risk monitor: {error}") from None
    if kept or not len(monitor.growth) == len(monitor.entered) == len(monitor.stakes):
        raise InvalidInput("this is no state of a risk monitor: it has other fields, or not one number for each stake")
    return monitor


def labelled_answers(errors: Any, labelled: Any, probability: Any, floor: Any) -> tuple[Mask, Array, Array]:
    """Return which of the answered records [n] have a label, and of those [t] the errors and floor / probability."""
    known, chance = label_draw(labelled, probability)
    least, rows = least_probability(floor, chance), column_of("errors", errors)
    same_length(errors=rows, labelled=known)
    e = unit_interval("errors", at(rows, known)) if known.any() else np.empty(0)
    return known, e, least / chance[known]


def log_mean(logs: Array) -> Array:
    """ln of the mean of exp over the last axis."""
    top = logs.max(axis=-1)
    mean: Array = top + np.log(np.exp(logs - top[..., np.newaxis]).mean(axis=-1))
    return mean


def _opening(start: str, n_stakes: int) -> dict[str, Any]:
    nothing = (-np.inf,) * n_stakes
    wealth = -np.inf if start == "each" else 0.0
    return {
        "growth": (0.0,) * n_stakes,
        "entered": (0.0,) * n_stakes if start == "first" else nothing,
        "log_wealth": wealth,
        "highest": wealth,
    }


def _bet(monitor: RiskMonitor, gains: Array) -> tuple[Array, Array, Array]:
    """Return growth and entered capital [s] after the labels, and ln of the wealth [t] after each of them.

    S <- (S + q)(1 + s g), q the capital that enters at a label, is a sum: capital that enters at label k grows by the
    product over all later labels. Both are taken from left to right, one label after the other, so that it makes no
    difference in which portions labels come.
    """
    stakes, growth, entered = (np.array(x) for x in (monitor.stakes, monitor.growth, monitor.entered))
    path = np.empty(len(gains))
    done = 0
    while done < len(gains):
        before = monitor.n_labelled + done
        upto = min(len(gains), done + BLOCK - before % BLOCK)
        times = np.arange(before + 1.0, before + 1 + upto - done)
        steps = np.log1p(gains[done:upto, np.newaxis] * stakes)
        grown = np.add.accumulate(np.vstack([growth, steps]))  # [b + 1, s], the first before the first label
        if monitor.start == "first":
            worth = entered + grown[1:]
        else:
            entry = np.zeros(len(times)) if monitor.start == "each" else -np.log(times * (times + 1))
            held = np.logaddexp.accumulate(np.vstack([entered, entry[:, np.newaxis] - grown[:-1]]))
            entered, worth = held[-1], held[1:] + grown[1:]
        wealth = log_mean(worth)
        path[done:upto] = np.logaddexp(wealth, -np.log(times + 1)) if monitor.start == "any" else wealth
        growth = grown[-1]
        if (before + upto - done) % BLOCK == 0:
            growth, entered = np.zeros(len(stakes)), worth[-1]
        done = upto
    return growth, entered, path


def _without_infinity(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_without_infinity(item) for item in value]
    return None if value == -np.inf else value


def _with_infinity(value: Any) -> float:
    return -np.inf if value is None else real_number("state", value)
