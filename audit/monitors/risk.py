"""Is the promised risk kept? The state of one artifact's alarm and interval, from labels as they become final."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from demur.audit.metrics.risk_monitor import RiskMonitor, new_risk_monitor, risk_monitor_from_json
from demur.audit.metrics.risk_sequence import LabelCounts, further_ends
from demur.audit.monitors.path import Path, path_from_json
from demur.uncertainty.checks import Array


@dataclass(frozen=True, kw_only=True)
class RiskSettings:
    """What is tested, and how surely. Another promise is another test."""

    target: float | None
    """Share of the answers that may be wrong; None where nothing was promised: then there is an interval, no alarm."""

    delta: float
    """How probable a false alarm is, in all time; and that the interval ever misses a constant risk."""

    in_order: bool = False
    """Whether labels are taken in the order of their records, so that none can come sooner for what it says."""

    def as_json(self) -> dict[str, Any]:
        """The settings of a round; those of rounds that began before there was an order are as they were."""
        return {"target": self.target, "delta": self.delta, **({"in_order": True} if self.in_order else {})}


@dataclass(frozen=True, kw_only=True)
class RiskState:
    """Where the alarm and the interval stand after some labels of answered records."""

    settings: RiskSettings
    floor: float
    """No record is labelled with a lower probability: bets hang on it. It may fall later, as bets on labels to come may
    hang on all that was known before; it never rises."""

    bets: RiskMonitor | None
    counts: LabelCounts = field(default_factory=LabelCounts)
    lower: float = 0.0
    upper: float = 1.0
    n_labelled: int = 0
    """Labels that were taken in, and records whose review came too late."""

    late: int = 0
    """Records whose review came too late; `n_labelled` counts them too. Each counts as right for the alarm, and as
    wrong for the upper end of the interval."""

    late_counts: LabelCounts | None = None
    """`counts` where the late ones are wrong; None: there is none."""

    waiting_since: str | None = None
    """When the answer was given for whose review the next labels wait; None: none waits."""

    errors: float = 0.0
    """Sum of the losses of the labelled ones: where answers are right or wrong, how many were wrong."""

    weight: float = 0.0
    weighted_errors: float = 0.0
    path: Path = field(default_factory=Path)
    """After so many labels: log wealth, NaN without a promise; lower and upper end of the interval."""

    raised: bool = False
    """Whether its alarm has been raised."""

    corrected_bets: RiskMonitor | None = None
    """Bets against the share that reviewers would call wrong if the promise just held, from when on their errors are
    known. They decide then. None: too little is known of the reviewers, and `bets` decide."""

    @property
    def deciding(self) -> RiskMonitor | None:
        """The bets that raise the alarm."""
        return self.corrected_bets or self.bets

    @property
    def alarmed(self) -> bool:
        return self.deciding is not None and self.deciding.alarm_at is not None

    @property
    def observed_alarmed(self) -> bool:
        """Whether what reviewers say would raise the alarm if they never erred."""
        return self.bets is not None and self.bets.alarm_at is not None

    @property
    def whole(self) -> bool:
        """Whether each label said right or wrong, as far as the sum of losses tells."""
        return self.errors == int(self.errors)

    @property
    def estimate(self) -> float:
        """The weighted share of wrong answers; NaN without a label."""
        return self.weighted_errors / self.weight if self.weight else np.nan

    def updated(
        self, losses: Sequence[float | None], probabilities: Sequence[float], *, called_wrong: float | None = None
    ) -> Self:
        """Return the state after further labels, in their order. Portions do not matter. A loss of None is that of a
        record whose review came too late: it enters an alarm as right, and the upper end of the interval as wrong.

        `called_wrong` is the share that reviewers would call wrong if the promise just held, by what was known of their
        errors before these labels; None: nothing is."""
        e, chance = np.array(losses, dtype=np.float64), np.array(probabilities, dtype=np.float64)
        after, done = self._against(called_wrong), 0
        while done < len(e):
            after = after.lowered(float(chance[done]))
            rarer = np.flatnonzero(chance[done:] < after.floor)
            upto = done + int(rarer[0]) if len(rarer) else len(e)
            after = after._fed(e[done:upto], chance[done:upto])
            done = upto
        return after

    def _against(self, called_wrong: float | None) -> Self:
        """With corrected bets against this share. They begin with the evidence so far where that share is at most the
        target: what speaks against a larger share speaks against a smaller one. Else they begin without any."""
        if called_wrong is None or self.bets is None:
            return self
        begun = self.corrected_bets
        if begun is None:
            begun = self.bets if called_wrong <= self.bets.target else self.bets.restarted()
        return replace(self, corrected_bets=replace(begun, target=called_wrong))

    def _fed(self, seen: Array, chance: Array) -> Self:
        """After labels [t] none of which is rarer than the floor; NaN of a late one."""
        ratio = self.floor / chance
        late = np.isnan(seen)
        e, at_worst = np.where(late, 0.0, seen), np.where(late, 1.0, seen)
        wealth, bets = _bet(self.bets, e, chance)
        _, corrected_bets = _bet(self.corrected_bets, e, chance)
        low, high = further_ends(self.counts, e, ratio, self.settings.delta)
        late_counts = self.late_counts
        if late.any() or late_counts is not None:
            before = late_counts or self.counts
            _, high = further_ends(before, at_worst, ratio, self.settings.delta)
            late_counts = before.added(at_worst, ratio)
        lower = np.maximum.accumulate(np.concatenate([[self.lower], low]))[1:]
        upper = np.minimum.accumulate(np.concatenate([[self.upper], high]))[1:]
        points = list(zip(wealth.tolist(), lower.tolist(), upper.tolist(), strict=True))
        return replace(
            self,
            bets=bets,
            corrected_bets=corrected_bets,
            counts=self.counts.added(e, ratio),
            late_counts=late_counts,
            late=self.late + int(late.sum()),
            lower=float(lower[-1]),
            upper=float(upper[-1]),
            n_labelled=self.n_labelled + len(e),
            errors=self.errors + float(e.sum()),
            weight=self.weight + float((~late / chance).sum()),
            weighted_errors=self.weighted_errors + float((e / chance).sum()),
            path=self.path.extended(self.n_labelled + 1, points),
        )

    def lowered(self, floor: float) -> Self:
        """Return the state for labels whose probability may be as low as `floor`."""
        if floor >= self.floor:
            return self
        bets, corrected = (one and replace(one, floor=floor) for one in (self.bets, self.corrected_bets))
        return replace(self, floor=floor, bets=bets, corrected_bets=corrected)

    def as_json(self) -> dict[str, Any]:
        return {
            **self.settings.as_json(),
            "floor": self.floor,
            "bets": self.bets and self.bets.as_json(),
            "corrected_bets": self.corrected_bets and self.corrected_bets.as_json(),
            "counts": _counts_json(self.counts),
            "late": self.late,
            "late_counts": self.late_counts and _counts_json(self.late_counts),
            "waiting_since": self.waiting_since,
            "lower": self.lower,
            "upper": self.upper,
            "n_labelled": self.n_labelled,
            "errors": self.errors,
            "weight": self.weight,
            "weighted_errors": self.weighted_errors,
            "path": self.path.as_json(),
            "raised": self.raised,
        }


def new_risk_state(settings: RiskSettings, floor: float) -> RiskState:
    """A state that has seen no label."""
    bets = None if settings.target is None else new_risk_monitor(settings.target, floor, delta=settings.delta)
    return RiskState(settings=settings, floor=floor, bets=bets)


def risk_state_from_json(document: Mapping[str, Any]) -> RiskState:
    """The state that `as_json` wrote down."""
    kept = dict(document)
    counts, late_counts = kept.pop("counts"), kept.pop("late_counts", None)
    bets, corrected_bets, path = kept.pop("bets"), kept.pop("corrected_bets", None), kept.pop("path")
    settings = RiskSettings(target=kept.pop("target"), delta=kept.pop("delta"), in_order=kept.pop("in_order", False))
    return RiskState(
        settings=settings,
        bets=bets and risk_monitor_from_json(bets),
        corrected_bets=corrected_bets and risk_monitor_from_json(corrected_bets),
        counts=_counts_from_json(counts),
        late_counts=late_counts and _counts_from_json(late_counts),
        path=path_from_json(path),
        **kept,
    )


def _counts_json(counts: LabelCounts) -> dict[str, Any]:
    return {"pairs": counts.pairs, "counts": counts.counts}


def _counts_from_json(document: Mapping[str, Any]) -> LabelCounts:
    return LabelCounts(pairs=tuple(map(tuple, document["pairs"])), counts=tuple(document["counts"]))


def _bet(bets: RiskMonitor | None, e: Array, chance: Array) -> tuple[Array, RiskMonitor | None]:
    """ln of the wealth [t] after each label, and the bets after the last."""
    if bets is None:
        return np.full(len(e), np.nan), None
    known = np.ones(len(e))
    after, wealth = bets.followed(e, known, chance)
    return wealth, after
