"""What goes over HTTP about the decisions of the last minutes."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field


class LiveMilliseconds(BaseModel):
    """Half, and 95 in a hundred, of the predictions took no longer; null where there were none."""

    p50: float | None
    p95: float | None


class ConfidenceBin(BaseModel):
    answered: int
    held: int


class LiveModel(BaseModel):
    """How the latest decisions of one model went."""

    n: int = Field(description="Decisions that were looked at: at most 1,000, none older than ten minutes.")
    seconds: float = Field(description="How far back they go.")
    per_second: float = Field(description="Decisions a second, over the last ten seconds.")
    held_share: float | None = Field(description="Share that was not answered; null without any.")
    milliseconds: LiveMilliseconds = Field(description="In the queue of the model and in the model.")
    confidence: list[ConfidenceBin] = Field(description="Counts by confidence, in 20 equal parts from 0 to 1.")
    limit: float | None = Field(
        description="The confidence from which the rule in force answers; null where it is no limit on confidence."
    )


class LiveDecision(BaseModel):
    id: UUID
    at: datetime
    model: str
    artifact: str | None
    group: str | None
    prediction: Any
    confidence: float | None
    action: Literal["answer", "review", "abstain"]
    reason: str
    milliseconds: float


class LiveView(BaseModel):
    """What was decided in the last minutes, with no inputs."""

    at: datetime
    open_cases: int = Field(description="Cases that have not ended, counted up to 10,000.")
    models: dict[str, LiveModel]
    decisions: list[LiveDecision] = Field(description="The newest first, at most 50.")
