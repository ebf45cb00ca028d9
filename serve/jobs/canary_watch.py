"""A canary is watched from outside, and ends when what it holds, or gets wrong, leaves the bounds that it was given.

Each bound is watched by bets that may be looked at all day (METHODS 9.4): a canary that keeps within all of them is
stopped with probability at most `FALSE_ALARM` in all time.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from demur.audit.metrics.likeness import likeness
from demur.audit.metrics.risk_monitor import RiskMonitor, new_risk_monitor, risk_monitor
from demur.audit.reviewer_error import reviewer_error, share_called_wrong
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.standing import Canary
from demur.calibration_store.store import ArtifactStore
from demur.review.disagreement import decided_checks
from demur.serve.config.file import Config
from demur.traffic.arrivals import ArrivedRecord, arrived, checked
from demur.traffic.database import Connection, Database, DatabaseUnavailable
from demur.traffic.outcomes import REVIEW

log = logging.getLogger("demur.canary")

FALSE_ALARM = 0.05
BOUNDS = 3
"""Too much held, too little held, too much wrong: the chance of a false alarm is split among them."""

AT_A_TIME = 50_000
"""Decisions that are in memory together: after a restart, all that a canary ever decided are counted anew."""

SETTLED = timedelta(seconds=5)
"""Decisions are counted when they are this old: by then those that were made before them are on record as well."""


@dataclass
class CanaryProgress:
    """How far one canary has been counted."""

    canary: Canary
    too_much: RiskMonitor | None
    too_little: RiskMonitor | None
    last: ArrivedRecord | None = None
    n: int = field(default=0)
    held: int = field(default=0)


class CanaryWatch:
    """Looks at the canaries of all models. What was counted is kept in memory, and counted anew after a restart."""

    def __init__(
        self, config: Config, store: ArtifactStore, database: Database, *, clock: Callable[[], datetime]
    ) -> None:
        self._config = config
        self._store = store
        self._database = database
        self._clock = clock
        self._followed: dict[str, CanaryProgress] = {}
        self._out_of_sight: set[str] = set()

    def look(self) -> None:
        """Count what is new, and end each canary that has left its bounds."""
        for model in self._config.models:
            try:
                self._look_at(model)
                self._out_of_sight.discard(model)
            except Exception as error:  # that of one model is no reason to look away from the others
                if model not in self._out_of_sight:  # once is enough for as long as it lasts
                    known = isinstance(error, ArtifactsUnreachable | DatabaseUnavailable)
                    log.error("the canary of model %s cannot be watched: %s", model, error, exc_info=not known)
                    self._out_of_sight.add(model)

    def _look_at(self, model: str) -> None:
        canary = self._store.standing(model).canary
        if canary is None:
            self._followed.pop(model, None)
        elif why := self._alarm(model, canary):
            ended = self._store.stop_canary(model, by="demur", why=why, clock=self._clock, only=canary.artifact)
            if ended:
                log.error("model %s: canary %s is stopped: %s", model, canary.artifact, why)

    def _alarm(self, model: str, canary: Canary) -> str:
        """Why the canary must end; empty while it need not."""
        followed = self._followed.get(model)
        if followed is None or followed.canary != canary:
            followed = self._followed[model] = _begin(canary)
        with self._database.transaction() as connection:
            self._count(connection, model, followed)
            wrong = "" if canary.max_risk is None else self._wrong(connection, model, canary, canary.max_risk)
        low, high = canary.held_between
        if any(one and one.alarm_at for one in (followed.too_much, followed.too_little)):
            share = followed.held / followed.n
            return f"it held {share:.1%} of {followed.n:,} predictions, and was to hold {low:.1%} to {high:.1%}"
        return wrong

    def _count(self, connection: Connection, model: str, followed: CanaryProgress) -> None:
        until = self._clock() - SETTLED
        full = True
        while full:
            new = arrived(
                connection,
                model,
                followed.canary.artifact,
                since=datetime.fromisoformat(followed.canary.since),
                until=until,
                after=followed.last,
                most=AT_A_TIME,
            )
            self._add(followed, new)
            full = len(new) == AT_A_TIME

    def _add(self, followed: CanaryProgress, new: Sequence[ArrivedRecord]) -> None:
        if not new:
            return
        held = np.array([one.action != "answer" for one in new], dtype=np.float64)
        all_known = np.ones(len(held))
        followed.last = new[-1]
        followed.n += len(held)
        followed.held += int(held.sum())
        if followed.too_much:
            followed.too_much = followed.too_much.updated(held, all_known, all_known)
        if followed.too_little:
            followed.too_little = followed.too_little.updated(held, all_known, all_known)

    def _wrong(self, connection: Connection, model: str, canary: Canary, max_risk: float) -> str:
        """The error alarm: labels may be corrected, so they are read anew at every look; there are few of them.

        Where blind second looks tell how often reviewers err, the bets are against the share that they would call wrong
        if `max_risk` of the answers were, as those of monitors are.
        """
        known = checked(
            connection,
            model,
            canary.artifact,
            precedence=self._config.precedence(model),
            since=datetime.fromisoformat(canary.since),
        )
        if not known:
            return ""
        # what a prediction lacks in likeness to the truth: of single labels, whether it was wrong
        errors = np.array(
            [1 - likeness(one.prediction, one.outcome) if one.prediction is not None else 1.0 for one in known]
        )
        probability = np.array([one.label_probability for one in known])
        checks = self._config.models[model].spot_checks
        floor = min(probability.min(), checks.least if checks else 1.0)  # told before anything was drawn
        called = None
        if np.isin(errors, (0, 1)).all() and all(one.source == REVIEW for one in known):
            reviewers = reviewer_error(decided_checks(connection, model, until=self._clock()))
            called = share_called_wrong(reviewers, max_risk)
        allowed = max_risk if called is None else called
        alarm = risk_monitor(errors, np.ones(len(known)), probability, allowed, floor, delta=FALSE_ALARM / BOUNDS)
        if alarm.alarm_at is None:
            return ""
        why = f"of {len(known):,} checked answers {errors.sum():g} were wrong, and at most {max_risk:.1%} may be"
        if called is None:
            return why
        return f"{why}: by how often they err, reviewers call {called:.1%} wrong where so many are"


def _begin(canary: Canary) -> CanaryProgress:
    low, high = canary.held_between
    share = {"floor": 1.0, "delta": FALSE_ALARM / BOUNDS}
    return CanaryProgress(
        canary=canary,
        too_much=new_risk_monitor(high, direction="above", **share) if high < 1 else None,
        too_little=new_risk_monitor(low, direction="below", **share) if low > 0 else None,
    )
