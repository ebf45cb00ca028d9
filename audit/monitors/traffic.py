"""Is the traffic still what it was? The state of one artifact's alarms that need no label.

They say that something changed, and that more labels are wanted: never that a promise is broken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.risk_monitor import RiskMonitor, new_risk_monitor, risk_monitor_from_json
from demur.audit.monitors.jumper import Jumper, jumper_from_json, new_jumper, steps_of
from demur.audit.monitors.reference import ReferenceSample, UnlabelledRecord


@dataclass(frozen=True, kw_only=True)
class TrafficSettings:
    delta: float
    """How probable a false alarm is, in all time, of all that look at the traffic of one artifact together."""

    reference: int
    """So many records, the first, are what later ones are compared with."""


@dataclass(frozen=True, kw_only=True)
class TrafficState:
    """Where the alarms stand after some records."""

    settings: TrafficSettings
    n: int = 0
    """Records, the reference included."""

    n_answered: int = 0
    n_never: int = 0
    """Answered ones that could never be labelled: nobody draws them."""

    jumper: Jumper | None = None
    """None until the reference is complete, as are the others."""

    too_much: RiskMonitor | None = None
    too_little: RiskMonitor | None = None
    """Bets that the share that is held has risen above, or fallen below, all that the reference leaves possible. None
    also where that leaves nothing above, or below."""

    n_held: int = 0
    """Held since the reference."""

    raised: tuple[str, ...] = ()
    """The alarms that have been raised."""

    @property
    def n_compared(self) -> int:
        """Records since the reference."""
        return self.jumper.n if self.jumper else 0

    @property
    def alarmed(self) -> tuple[str, ...]:
        """Which alarms have gone off: `confidence`, `held`."""
        held = any(one is not None and one.alarm_at is not None for one in (self.too_much, self.too_little))
        confidence = self.jumper is not None and self.jumper.alarm_at is not None
        return tuple(kind for kind, on in (("confidence", confidence), ("held", held)) if on)

    def counted(self, rows: Sequence[UnlabelledRecord], probabilities: Sequence[float]) -> Self:
        """Return the state that has counted these records, and compared none of them yet."""
        answered = [not row.held for row in rows]
        never = [one and chance == 0 for one, chance in zip(answered, probabilities, strict=True)]
        return replace(
            self,
            n=self.n + len(rows),
            n_answered=self.n_answered + sum(answered),
            n_never=self.n_never + sum(never),
        )

    def begun(self, reference: ReferenceSample) -> Self:
        """Return the state that compares with this reference, from the next record on.

        A quarter of `delta` is for the chance that the share held in the reference is further from its true share than
        its exact interval, a quarter for the bets against that interval, and half for those on the confidence.
        """
        quarter = self.settings.delta / 4
        share = clopper_pearson(reference.n_held, reference.n, quarter)
        return replace(
            self,
            jumper=new_jumper(np.array(reference.confidence), 2 * quarter),
            too_much=new_risk_monitor(share.upper, 1.0, delta=quarter / 2) if share.upper < 1 else None,
            too_little=new_risk_monitor(share.lower, 1.0, delta=quarter / 2, direction="below")
            if share.lower > 0
            else None,
        )

    def compared(self, rows: Sequence[UnlabelledRecord], uniforms: Sequence[float]) -> Self:
        """Return the state after further records, each with a draw in [0, 1] that hangs on nothing else."""
        if not rows:
            return self
        assert self.jumper is not None, "there is a reference before anything is compared"
        held = np.array([row.held for row in rows], dtype=np.float64)
        all_known = np.ones(len(rows))
        steps = steps_of(np.array([row.confidence for row in rows]))
        return replace(
            self,
            jumper=self.jumper.updated(steps, uniforms),
            too_much=self.too_much and self.too_much.updated(held, all_known, all_known),
            too_little=self.too_little and self.too_little.updated(held, all_known, all_known),
            n_held=self.n_held + int(held.sum()),
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "delta": self.settings.delta,
            "reference": self.settings.reference,
            "n": self.n,
            "n_answered": self.n_answered,
            "n_never": self.n_never,
            "jumper": self.jumper and self.jumper.as_json(),
            "too_much": self.too_much and self.too_much.as_json(),
            "too_little": self.too_little and self.too_little.as_json(),
            "n_held": self.n_held,
            "raised": self.raised,
        }


def traffic_state_from_json(document: Mapping[str, Any]) -> TrafficState:
    """The state that `as_json` wrote down."""
    kept = dict(document)
    jumper, too_much, too_little = kept.pop("jumper"), kept.pop("too_much"), kept.pop("too_little")
    return TrafficState(
        settings=TrafficSettings(delta=kept.pop("delta"), reference=kept.pop("reference")),
        jumper=jumper and jumper_from_json(jumper),
        too_much=too_much and risk_monitor_from_json(too_much),
        too_little=too_little and risk_monitor_from_json(too_little),
        raised=tuple(kept.pop("raised")),
        **kept,
    )
