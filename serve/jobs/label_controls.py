"""Controls that labels move (METHODS 9.5): a job takes up new decisions and labels, and writes where the value stands.

Gateways and hosts learn it from there.
"""

import logging
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from uuid import UUID

from demur.audit.metrics.likeness import likeness
from demur.audit.state import control_states
from demur.audit.state.control_events import ControlLabel, CountedDecision, ReadUntil, portion
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.policies.control import AdaptiveLevel, ControlledValue, TrackedRisk
from demur.serve.config.control import first_course, settings_of
from demur.serve.config.file import Config, ModelConfig
from demur.traffic.database import Database, DatabaseUnavailable

log = logging.getLogger("demur.control")

AT_A_TIME = 20_000
"""Decisions, and labels, that are in memory together."""

SETTLED = timedelta(seconds=5)
"""What happened is counted when it is this old: by then all that happened before is on record as well."""


class LabelControls:
    """Those of all models. Of several that look at once one moves a value, and the others wait for it."""

    def __init__(
        self, config: Config, database: Database, *, clock: Callable[[], datetime], new_id: Callable[[], UUID]
    ) -> None:
        self._config = config
        self._database = database
        self._clock = clock
        self._new_id = new_id
        self._out_of_sight: set[str] = set()

    def look(self) -> None:
        """Count what is new."""
        for name, model in self._config.models.items():
            if model.control is None:
                continue
            control = model.control.control(model.least_label_probability)
            if not isinstance(control, TrackedRisk | AdaptiveLevel):
                continue
            try:
                while self._look_at(name, model, control):
                    pass
                self._out_of_sight.discard(name)
            except Exception as error:  # that of one model is no reason to leave the others alone
                if name not in self._out_of_sight:  # once is enough for as long as it lasts
                    known = isinstance(error, ArtifactsUnreachable | DatabaseUnavailable)
                    log.error(
                        "the control of model %s cannot be moved, and stays where it is: %s",
                        name, error, exc_info=not known,
                    )  # fmt: skip
                    self._out_of_sight.add(name)

    def _look_at(self, name: str, model: ModelConfig, control: TrackedRisk | AdaptiveLevel) -> bool:
        """Count a portion; whether there may be more."""
        now = self._clock()
        assert model.control is not None
        with self._database.transaction() as connection:
            state = control_states.shared(
                connection,
                self._new_id(),
                model=name,
                settings=settings_of(model),
                course=asdict(first_course(model.control)),
                now=now,
            )
            before = ReadUntil.from_json(state.read_until)
            new = portion(
                connection,
                name,
                precedence=model.outcomes.precedence,
                since=state.began_at,
                until=now - SETTLED,
                after=before,
                most=AT_A_TIME,
            )
            course, artifact = ControlledValue(**state.course), state.artifact
            for one in new.in_order():
                course = moved(control, course, one)
                if isinstance(one, CountedDecision):
                    artifact = one.artifact or artifact
            control_states.keep(
                connection,
                state.lane,
                asdict(course),
                holder=None,
                artifact=artifact,
                now=now,
                read_until=new.until(before).as_json(),
            )
            control_states.note(connection, state, course, now=now)
        return new.full


def moved(
    control: TrackedRisk | AdaptiveLevel, course: ControlledValue, one: CountedDecision | ControlLabel
) -> ControlledValue:
    """Where the value stands after a decision, or after a label."""
    if isinstance(control, TrackedRisk):
        if isinstance(one, CountedDecision):
            return control.after_request(course, one.answered)
        if not one.answered:  # it moved the limit when it was decided
            return course
        error = 1.0 if one.prediction is None else 1 - likeness(one.prediction, one.outcome)
        return control.after_label(course, error, 1 / one.probability)
    if isinstance(one, CountedDecision):
        return control.after_request(course) if one.predicted else course
    if one.prediction is None:  # nothing was said, so there was no set
        return course
    return control.after_label(course, float(one.outcome not in one.prediction_set), 1 / one.probability)
