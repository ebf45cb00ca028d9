"""What becomes of a prediction in the end, after everybody who has a word in it has spoken."""

from math import nan
from typing import NamedTuple

from demur.policies.decision import Action
from demur.serve.gateway.controls import ModelControl
from demur.serve.gateway.safeguards import Safeguards


class FinalAction(NamedTuple):
    """An action, and why."""

    action: Action
    reason: str


def final_action(
    decided: FinalAction,
    model: str,
    confidence: float | None,
    artifact: str | None,
    *,
    control: ModelControl | None,
    safeguards: Safeguards,
    no_room: str,
) -> FinalAction:
    """Start from what an artifact `decided`, and let each step have its word in turn; a later one outdoes an earlier.

    1. The model's control. It answers nothing that the artifact holds.
    2. Alarms: what they hold is not answered.
    3. The room in the queue: where `no_room` says why there is none, what would be reviewed is abstained from.

    No step may answer what an earlier one holds. An alarm is named first in the reason.
    """
    final = decided
    if control is not None:
        steered = control.steer(decided.action, nan if confidence is None else confidence, artifact)
        final = FinalAction(steered.action, f"{decided.reason}; {steered.note}")
    by_alarm = safeguards.why_held(model, confidence) if final.action is Action.ANSWER else ""
    if by_alarm:
        final = FinalAction(Action.REVIEW, final.reason)
    if final.action is Action.REVIEW and no_room:
        final = FinalAction(Action.ABSTAIN, f"{no_room}; {final.reason}")
    return FinalAction(final.action, f"{by_alarm}; else: {final.reason}") if by_alarm else final
