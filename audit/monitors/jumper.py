"""Do confidences still come as they came? The simple jumper (METHODS 9.4) as a state that survives restarts.

Two things are added to `audit.exchangeability`, and neither costs the guarantee. Confidences are put into steps that
were fixed before any was seen, so that all earlier ones can be kept as counts: exchangeable values stay so if the same
function is taken of each, and ties are broken by draws. And a part of the capital enters at every record, as in the
risk alarm with the start `any`: a jumper that began once has lost e^200 after 50,000 quiet records, and would sleep
through a change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from demur.audit.monitors.path import Path, path_from_json
from demur.uncertainty.checks import Array

JUMP = 0.01
STEPS_PER_LOGIT = 64
LARGEST_LOGIT = 16
MIDDLE = STEPS_PER_LOGIT * LARGEST_LOGIT + 1
N_STEPS = 2 * MIDDLE
"""Step 0 is for a confidence that is unknown."""

BLOCK = 1024
SLACK = 1e-12

Steps = NDArray[np.intp]


def steps_of(confidence: Array) -> Steps:
    """[n], the step of each confidence, in [0, N_STEPS); NaN has one of its own."""
    known = np.clip(np.where(np.isnan(confidence), 0.5, confidence), 1e-300, 1.0)
    with np.errstate(divide="ignore"):
        logit = np.log(known) - np.log1p(-known)
    steps = MIDDLE + np.rint(STEPS_PER_LOGIT * np.clip(logit, -LARGEST_LOGIT, LARGEST_LOGIT)).astype(np.intp)
    return np.where(np.isnan(confidence), 0, steps)


@dataclass(frozen=True, kw_only=True)
class Jumper:
    """Bets that confidences [n] are mostly higher, or mostly lower, than those before them. If records come in an order
    that does not matter, it ever alarms with probability at most `delta`."""

    delta: float
    seen: Mapping[int, int]
    """How often each step occurred, the reference included."""

    n: int = 0
    """Records since the reference."""

    low: float = 0.0
    even: float = 0.0
    high: float = 0.0
    """Shares of the capital that has entered."""

    log_capital: float = -np.inf
    highest: float = 0.0
    log_wealth: float = 0.0
    """With the capital that has not entered yet."""

    alarm_at: int | None = None
    path: Path = field(default_factory=Path)
    """After so many records, `log_wealth`."""

    @property
    def p_value(self) -> float:
        return exp(-max(0.0, self.highest))

    def updated(self, steps: Sequence[int] | Steps, uniforms: Sequence[float] | Array) -> Self:
        """Return the state after further records with these `steps_of` their confidence, and a draw in [0, 1] for each
        that hangs on nothing else. In whatever portions they come, the numbers are the same."""
        new = np.asarray(steps, dtype=np.intp)
        if not len(new):
            return self
        counts = np.zeros(N_STEPS, dtype=np.int64)
        counts[list(self.seen)] = list(self.seen.values())
        p = _p_values(counts, new, np.asarray(uniforms, dtype=np.float64))
        known = np.flatnonzero(counts)
        after = replace(self, seen=dict(zip(known.tolist(), counts[known].tolist(), strict=True)))
        return after._bet(p)

    def _bet(self, p: Array) -> Self:
        low, even, high, total, n = self.low, self.even, self.high, self.log_capital, self.n
        line, alarm_at, highest, wealth = [], self.alarm_at, self.highest, self.log_wealth
        least = -log(self.delta) - SLACK
        for gain in (p - 0.5).tolist():
            n += 1
            entering = exp(-log(n * (n + 1)) - total) / 3 if n > 1 else 0.0
            if n == 1:
                low = even = high = 1 / 3
                total = -log(2)
            else:
                low, even, high = low + entering, even + entering, high + entering
            mixed = JUMP / 3 * (low + even + high)
            low = ((1 - JUMP) * low + mixed) * (1 - gain)
            even = (1 - JUMP) * even + mixed
            high = ((1 - JUMP) * high + mixed) * (1 + gain)
            grown = low + even + high
            low, even, high, total = low / grown, even / grown, high / grown, total + log(grown)
            wealth = float(np.logaddexp(total, -log(n + 1)))
            highest = max(highest, wealth)
            line.append((wealth,))
            if alarm_at is None and wealth >= least:
                alarm_at = n
        return replace(
            self,
            n=n,
            low=low,
            even=even,
            high=high,
            log_capital=total,
            log_wealth=wealth,
            highest=highest,
            alarm_at=alarm_at,
            path=self.path.extended(self.n + 1, line),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "delta": self.delta,
            "seen": [[step, n] for step, n in self.seen.items()],
            "n": self.n,
            "shares": [self.low, self.even, self.high],
            "log_capital": None if self.log_capital == -np.inf else self.log_capital,
            "log_wealth": self.log_wealth,
            "highest": self.highest,
            "alarm_at": self.alarm_at,
            "path": self.path.as_json(),
        }


def new_jumper(reference: Array, delta: float) -> Jumper:
    """A state that knows the confidences [n] of the reference, and nothing after them."""
    known, counts = np.unique(steps_of(reference), return_counts=True)
    return Jumper(delta=delta, seen=dict(zip(known.tolist(), counts.tolist(), strict=True)))


def jumper_from_json(document: Mapping[str, Any]) -> Jumper:
    """The state that `as_json` wrote down."""
    low, even, high = document["shares"]
    capital = document["log_capital"]
    return Jumper(
        delta=document["delta"],
        seen=dict(document["seen"]),
        n=document["n"],
        low=low,
        even=even,
        high=high,
        log_capital=-np.inf if capital is None else capital,
        log_wealth=document["log_wealth"],
        highest=document["highest"],
        alarm_at=document["alarm_at"],
        path=path_from_json(document["path"]),
    )


def _p_values(counts: NDArray[np.int64], steps: Steps, uniforms: Array) -> Array:
    """[n], as `audit.exchangeability.conformal_p_values` of the steps; `counts` [N_STEPS] takes them in."""
    p = np.empty(len(steps))
    for start in range(0, len(steps), BLOCK):
        s = steps[start : start + BLOCK]
        above = counts.sum() - np.cumsum(counts)
        earlier = np.tri(len(s), k=-1, dtype=bool)
        larger = above[s] + (earlier & (s > s[:, np.newaxis])).sum(axis=1)
        equal = counts[s] + (earlier & (s == s[:, np.newaxis])).sum(axis=1) + 1
        size = counts.sum() + np.arange(1, len(s) + 1)
        p[start : start + BLOCK] = (larger + uniforms[start : start + BLOCK] * equal) / size
        np.add.at(counts, s, 1)
    return p
