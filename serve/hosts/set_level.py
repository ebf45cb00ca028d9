"""The error level at which a host makes prediction sets, where labels move it (METHODS 9.5)."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from demur.audit.state import control_states
from demur.calibration_store.artifact import Artifact
from demur.policies.control import ControlledValue
from demur.policies.judgement import Judgement
from demur.policies.moving_sets import at_level
from demur.policies.selector import Selector
from demur.serve.config.control import AdaptiveSetsConfig, first_course, settings_of
from demur.serve.config.file import ModelConfig
from demur.traffic.database import Database, DatabaseUnavailable
from demur.uncertainty.output import Output

log = logging.getLogger("demur.host")

MOST_KEPT = 8
"""Selectors: of the artifacts that decide, at this level and those just before."""


class SetLevel:
    """What a host knows of it. Until it has learnt better, and while it cannot, what was known stays."""

    def __init__(self, model: str, config: ModelConfig) -> None:
        """Raises `TypeError` where sets are not controlled."""
        if not isinstance(config.control, AdaptiveSetsConfig):
            raise TypeError(f"the sets of {model} are not controlled")
        self._model = model
        self._settings = settings_of(config)
        self.level = first_course(config.control).value
        self._selectors: dict[tuple[str, float], Selector] = {}
        self._silent = False

    def learn(self, database: Database) -> None:
        """Ask where labels have moved it."""
        try:
            with database.transaction() as connection:
                known = control_states.latest(connection, self._model, self._settings)
        except DatabaseUnavailable as error:
            if not self._silent:
                log.error("model %s: the level of its sets stays %.3g: %s", self._model, self.level, error)
            self._silent = True
            return
        self._silent = False
        if known is not None:
            self.level = ControlledValue(**known.course).value

    def judge(self, artifact: Artifact, output: Output, groups: Sequence[str | None]) -> Judgement:
        """What an artifact makes of an output, with its sets at the present level, which its reasons name. Raises
        `FixedSets` where its sets cannot be moved."""
        level = self.level
        judgement = self._selector_of(artifact, level).decide(output, groups)
        note = f"; adaptive_sets: the present error level of the sets is {100 * level:.3g}%"
        reasons = tuple(f"{reason}{note}" for reason in judgement.decisions.reasons)
        return replace(judgement, decisions=replace(judgement.decisions, reasons=reasons))

    def _selector_of(self, artifact: Artifact, level: float) -> Selector:
        key = artifact.name, level
        found = self._selectors.get(key)
        if found is None:
            if len(self._selectors) >= MOST_KEPT:
                self._selectors.clear()
            found = self._selectors[key] = at_level(artifact.selector, level)
        return found
