"""A risk alarm whose bets are helped by predicted errors: confidence takes variance out of every record."""

from typing import Any

import numpy as np

from demur.audit.metrics.risk_monitor import (
    DIRECTIONS,
    SLACK,
    STAKES,
    RiskAlarm,
    labelled_answers,
    log_mean,
    new_risk_monitor,
)
from demur.uncertainty.checks import Array, fraction, one_of, real_number, same_length, unit_interval

ASSISTED_STARTS = ("first", "any")


def assisted_risk_monitor(
    errors: Any,
    labelled: Any,
    probability: Any,
    predicted: Any,
    target: Any,
    floor: Any,
    ceiling: Any,
    delta: Any = 0.05,
    direction: Any = "above",
    start: Any = "any",
    stakes: Any = None,
) -> RiskAlarm:
    """Return the wealth after each answered record [n], labelled or not, as `risk_monitor` does (METHODS 10.14).

    `predicted` [n] is the expected error 1 - c, known before the outcome, and is cut at `ceiling`, which is declared: 1
    less the limit of answering. `floor` is the least label probability. Predictions need not be right, and raise no
    alarm by themselves. At small risks they help little. The start `each` is not offered.
    """
    one_of("direction", direction, DIRECTIONS)
    one_of("start", start, ASSISTED_STARTS)
    shares = STAKES["above"] if stakes is None else stakes  # small ones in both directions: every record is a bet
    fresh = new_risk_monitor(target, floor, delta=delta, direction=direction, start=start, stakes=shares)
    known, e, ratio = labelled_answers(errors, labelled, probability, fresh.floor)
    most = fraction("ceiling", real_number("ceiling", ceiling))
    f = np.minimum(unit_interval("predicted", predicted), most)
    same_length(predicted=f, labelled=known)
    x = f.copy()
    x[known] += ratio / fresh.floor * (e - f[known])
    if fresh.direction == "above":
        gains = (x - fresh.target) / (fresh.target + most * (1 / fresh.floor - 1))
    else:
        gains = (fresh.target - x) / (1 / fresh.floor - fresh.target)
    wealth = _wealth(gains, known.cumsum(), np.array(fresh.stakes), fresh.start)
    reached = np.flatnonzero(wealth >= -np.log(fresh.delta) - SLACK)
    return RiskAlarm(
        log_wealth=wealth,
        alarm_at=int(reached[0]) + 1 if len(reached) else None,
        p_value=float(np.exp(-max(0.0, float(wealth.max())))),
    )


def _wealth(gains: Array, n_labelled: Array, stakes: Array, start: str) -> Array:
    """ln of the capital [n] after each record; capital that enters after a record grows by all later ones."""
    grown = np.log1p(gains[:, np.newaxis] * stakes).cumsum(axis=0)
    if start == "first":
        return log_mean(grown)
    new = np.diff(n_labelled, prepend=0) == 1
    entry = np.full(len(gains), -np.inf)
    entry[new] = -np.log((n_labelled[new] + 1.0) * (n_labelled[new] + 2.0))
    entered = np.vstack([np.full(len(stakes), np.log(0.5)), entry[:, np.newaxis] - grown])
    worth = grown + np.logaddexp.accumulate(entered)[1:]
    return np.asarray(np.logaddexp(log_mean(worth), -np.log(n_labelled + 2.0)))
