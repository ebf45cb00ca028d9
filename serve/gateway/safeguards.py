"""What alarms keep in force about models, as far as one gateway knows: some or all answers are held."""

import logging
import time
from collections.abc import Callable, Mapping

from demur.audit.state import alarms
from demur.audit.state.alarms import Safeguard
from demur.traffic.database import Database, DatabaseUnavailable
from demur.traffic.record import HELD_BY_ALARM

log = logging.getLogger("demur.safeguards")

PATIENCE_SECONDS = 10.0
"""After so long without news it is logged that there is none."""


class Safeguards:
    """Answers become held ones; nothing that is held is ever let through. What was known stays in force until something
    else is known for certain."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: Mapping[str, Safeguard] = {}
        self._looked_at: float | None = None
        self._silence_is_told = False

    def why_held(self, model: str, confidence: float | None) -> str:
        """Why an answer of this confidence must be held; empty where it may be given."""
        guard = self._known.get(model)
        if guard is None:
            return ""
        if guard.floor is None:
            return f"{HELD_BY_ALARM}{guard.alarm_id}, which holds all answers of {model} until a person undoes it"
        if confidence is not None and confidence >= guard.floor:
            return ""
        sure = "unknown" if confidence is None else f"{confidence:.3g}"
        return (
            f"{HELD_BY_ALARM}{guard.alarm_id}: confidence {sure} is below {guard.floor:.6g}, under which it holds all"
            f" answers of {model} until a person undoes it"
        )

    def guards(self, model: str) -> bool:
        """Whether an alarm holds answers of this model, some or all."""
        return model in self._known

    def holds_all(self, model: str) -> bool:
        guard = self._known.get(model)
        return guard is not None and guard.floor is None

    def look(self, database: Database) -> None:
        """Learn what is in force now. Where that is impossible what was known stays; the first look must succeed, or it
        raises `DatabaseUnavailable`."""
        try:
            with database.transaction() as connection:
                found = alarms.safeguards(connection)
        except DatabaseUnavailable as error:
            if self._looked_at is None:
                raise
            self._tell_of_silence(self._clock() - self._looked_at, str(error))
            return
        strictest: dict[str, Safeguard] = {}
        for guard in found:
            before = strictest.get(guard.model)
            if before is None or _strictness(guard) > _strictness(before):
                strictest[guard.model] = guard
        self._tell_of_change(strictest)
        self._known, self._looked_at, self._silence_is_told = strictest, self._clock(), False

    def _tell_of_silence(self, silent: float, why: str) -> None:
        if silent > PATIENCE_SECONDS and not self._silence_is_told:
            log.error("alarms could not be looked up for %.0f s, and those of before stand: %s", silent, why)
            self._silence_is_told = True

    def _tell_of_change(self, now: Mapping[str, Safeguard]) -> None:
        for model in sorted({*self._known, *now}):
            guard = now.get(model)
            if guard == self._known.get(model):
                continue
            if guard is None:
                log.warning("model %s answers again as its artifact decides: no alarm holds anything", model)
            elif guard.floor is None:
                log.error("alarm %d holds all answers of model %s", guard.alarm_id, model)
            else:
                log.error(
                    "alarm %d holds answers of model %s below confidence %.6g", guard.alarm_id, model, guard.floor
                )


def _strictness(guard: Safeguard) -> float:
    return float("inf") if guard.floor is None else guard.floor
