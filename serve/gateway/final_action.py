"""What becomes of a prediction in the end. Three have a word after the artifact, and a later one outdoes an earlier:

1. The model's control. It answers nothing that the artifact holds.
2. Alarms: what they hold is not answered.
3. The room in the queue: where it is full, what would be reviewed is abstained from.

No step answers what an earlier one holds. An alarm is named first in the reason.
"""

from math import nan
from typing import NamedTuple

from demur.policies.decision import Action
from demur.serve.gateway.controls import ModelControl
from demur.serve.gateway.safeguards import Safeguards


class FinalAction(NamedTuple):
    """An action, and why."""

    action: Action
    reason: str


class OverruledAction(NamedTuple):
    """What is left of a decision when the control and the alarms of its model have had their word."""

    action: Action
    reason: str
    by_alarm: str = ""
    """The alarm that holds it; empty where none does."""


def overruled(
    decided: FinalAction,
    model: str,
    confidence: float | None,
    artifact: str | None,
    *,
    control: ModelControl | None,
    safeguards: Safeguards,
) -> OverruledAction:
    """Let the control of a model have its word about what an artifact `decided`, which moves the control, and then its
    alarms. Neither answers what was held before."""
    action, reason = decided
    if control is not None:
        steered = control.steer(action, nan if confidence is None else confidence, artifact)
        action, reason = steered.action, f"{reason}; {steered.note}"
    by_alarm = safeguards.why_held(model, confidence) if action is Action.ANSWER else ""
    return OverruledAction(Action.REVIEW if by_alarm else action, reason, by_alarm)


def in_the_room(one: OverruledAction, no_room: str) -> FinalAction:
    """The last step: where `no_room` says why the queue has no room, what would be reviewed is abstained from. An alarm
    is named first in the reason."""
    action, reason, by_alarm = one
    if action is Action.REVIEW and no_room:
        action, reason = Action.ABSTAIN, f"{no_room}; {reason}"
    return FinalAction(action, f"{by_alarm}; else: {reason}" if by_alarm else reason)
