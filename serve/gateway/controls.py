"""The controls of the models, as one gateway steers by them (METHODS 9.5).

A price or a rate is moved here by each decision, and every gateway moves its own: where each keeps its average, all of
them together do. What labels move is moved elsewhere, and only learnt here.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from threading import Lock
from uuid import UUID

from demur.audit.state import control_states
from demur.audit.state.control_states import ControlState
from demur.policies.control import (
    AdaptiveLevel,
    ByDecisions,
    ControlledAction,
    ControlledValue,
    PricedReviews,
    TrackedRate,
    TrackedRisk,
)
from demur.policies.decision import Action
from demur.serve.config.control import first_course, settings_of
from demur.serve.config.file import ModelConfig
from demur.traffic.database import Connection, Database, DatabaseUnavailable

log = logging.getLogger("demur.control")


PATIENCE = timedelta(seconds=10)
"""After so long it is logged that nothing can be kept."""


class ModelControl:
    """What steers one model here."""

    def __init__(self, model: str, config: ModelConfig, holder: UUID) -> None:
        assert config.control is not None
        control = config.control.control(config.least_label_probability)
        assert not isinstance(control, AdaptiveLevel)  # the hosts' own
        self.control: ByDecisions | TrackedRisk = control
        self.settings = settings_of(config)
        self._model = model
        self._holder = holder
        self._course = first_course(config.control)
        self._artifact: str | None = None
        self._lane: ControlState | None = None
        self._lock = Lock()

    @property
    def course(self) -> ControlledValue:
        return self._course

    def steer(self, action: Action, confidence: float, artifact: str | None) -> ControlledAction:
        """What becomes of a prediction, given the artifact's own action; the value moves. It has moved also where the
        record is not written in the end."""
        with self._lock:
            steered = self.control.steer(action, confidence, self._course.value)
            if isinstance(self.control, PricedReviews | TrackedRate):
                self._course = self.control.moved(self._course, steered.action, confidence)
                self._artifact = artifact or self._artifact
        return steered

    def keep(self, connection: Connection, *, now: datetime, new_id: Callable[[], UUID]) -> None:
        """Write where the value stands, or learn it where labels move it."""
        if isinstance(self.control, TrackedRisk):
            known = control_states.latest(connection, self._model, self.settings)
            if known is not None:
                self._course = ControlledValue(**known.course)
            return
        if self._lane is None:
            self._find_lane(connection, now=now, new_id=new_id)
        with self._lock:
            course, artifact = self._course, self._artifact
        assert self._lane is not None
        kept = control_states.keep(
            connection, self._lane.lane, asdict(course), holder=self._holder, artifact=artifact, now=now
        )
        if not kept:  # it was thought to be gone, and another has it now
            self._lane = None
            return
        control_states.note(connection, self._lane, course, now=now)

    def let_go(self, connection: Connection) -> None:
        """Leave the lane to whoever comes next."""
        if self._lane is not None:
            control_states.let_go(connection, self._lane.lane, self._holder)

    def _find_lane(self, connection: Connection, *, now: datetime, new_id: Callable[[], UUID]) -> None:
        """Go on where another has left, or begin a lane: at the latest value that is known, which stays within the
        same bounds."""
        with self._lock:
            fresh = self._course.n == 0
        left = None
        if fresh:
            left = control_states.take_left(connection, self._model, self.settings, holder=self._holder, now=now)
        if left is None:
            another = control_states.latest(connection, self._model, self.settings) if fresh else None
            with self._lock:
                if another is not None and self._course.n == 0:
                    self._course = ControlledValue.at(ControlledValue(**another.course).value)
                course = self._course
            left = control_states.begin(
                connection,
                new_id(),
                model=self._model,
                settings=self.settings,
                course=asdict(course),
                holder=self._holder,
                now=now,
            )
        else:
            with self._lock:  # a decision made meanwhile is of no more weight than one lost in a crash
                self._course = ControlledValue(**left.course)
        self._lane = left


class Controls:
    """Those of all models."""

    def __init__(
        self, models: Mapping[str, ModelConfig], *, clock: Callable[[], datetime], new_id: Callable[[], UUID]
    ) -> None:
        self._clock = clock
        self._new_id = new_id
        holder = new_id()
        self._controls = {
            name: ModelControl(name, model, holder)
            for name, model in models.items()
            if model.control is not None and model.control.kind != "adaptive_sets"
        }
        self._kept_at: datetime | None = None
        self._closed = False
        self._silence_is_told = False

    def of(self, model: str) -> ModelControl | None:
        return self._controls.get(model)

    def keep(self, database: Database) -> None:
        """Write and learn where the values stand. Where that is impossible, what was known stays; the first time must
        succeed, or it raises `DatabaseUnavailable`."""
        if not self._controls or self._closed:
            return
        now = self._clock()
        try:
            for control in self._controls.values():
                with database.transaction() as connection:
                    control.keep(connection, now=now, new_id=self._new_id)
        except DatabaseUnavailable as error:
            if self._kept_at is None:
                raise
            if now - self._kept_at > PATIENCE and not self._silence_is_told:
                log.error("controls cannot be kept since %s, and what was known stays: %s", self._kept_at, error)
                self._silence_is_told = True
            return
        self._kept_at, self._silence_is_told = now, False

    def close(self, database: Database) -> None:
        """Write a last time, and leave the lanes to whoever comes next."""
        self._closed = True
        now = self._clock()
        try:
            for control in self._controls.values():
                with database.transaction() as connection:
                    control.keep(connection, now=now, new_id=self._new_id)
                    control.let_go(connection)
        except DatabaseUnavailable as error:
            log.error("what controls did since %s is not written: %s", self._kept_at, error)
