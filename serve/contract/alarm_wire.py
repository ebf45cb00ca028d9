"""An alarm as JSON: in webhooks, and over HTTP."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from demur.audit.state.alarms import Alarm


class AlarmView(BaseModel):
    """Something that a monitor has found."""

    id: int
    model: str
    artifact: str
    kind: Literal["risk", "confidence", "held", "audit"] = Field(
        description="`risk`: more answers are wrong than was promised. `confidence`, `held`: the traffic has changed,"
        " and nothing is known yet of errors. `audit`: a scheduled audit found a promise broken; `evidence` names it."
    )
    raised_at: datetime
    words: str = Field(description="What is the matter, in one sentence.")
    evidence: dict[str, Any] = Field(description="The numbers behind it.")
    action: Literal["notify", "tighten", "hold_all"] = Field(description="What it does about it.")
    floor: float | None = Field(
        description="Of `tighten`, the least confidence that is still answered; null: nothing is."
    )
    undone_at: datetime | None = Field(description="Null while it is in force.")
    undone_by: str | None
    undo_why: str | None


def alarm_json(alarm: Alarm) -> dict[str, Any]:
    """`AlarmView`."""
    return {
        "id": alarm.id,
        "model": alarm.model,
        "artifact": alarm.artifact,
        "kind": alarm.kind,
        "raised_at": alarm.raised_at.isoformat(),
        "words": alarm.words,
        "evidence": alarm.evidence,
        "action": alarm.action,
        "floor": alarm.floor,
        "undone_at": alarm.undone_at and alarm.undone_at.isoformat(),
        "undone_by": alarm.undone_by,
        "undo_why": alarm.undo_why,
    }
