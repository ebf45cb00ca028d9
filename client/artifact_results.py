"""What a service answers about artifacts, as frozen values. What this version does not know is kept in `raw`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from demur.client.fields import Fields
from demur.client.results import Raw

JobKind = Literal["fit", "compare", "replay"]


@dataclass(frozen=True, kw_only=True)
class ArtifactSummary(Raw):
    """One artifact of a model. `raw` has its figures on rows that the fit has not seen."""

    name: str
    role: str | None
    """`in force`, `shadow`, `canary`, or None."""

    policy: str | None
    promises: list[str]
    refused: str | None
    """Why it cannot be read; None where it can."""

    @classmethod
    def of(cls, told: Fields) -> "ArtifactSummary":
        return cls(
            name=told.text("name"),
            role=told.optional_text("role"),
            policy=told.optional_text("policy"),
            promises=told.texts("promises"),
            refused=told.optional_text("refused"),
            raw=told.raw,
        )


@dataclass(frozen=True, kw_only=True)
class Change(Raw):
    """One change of which artifacts decide. `raw["standing"]` says which decide after it."""

    number: int
    at: datetime
    action: str
    artifact: str | None
    by: str
    why: str

    @classmethod
    def of(cls, told: Fields) -> "Change":
        return cls(
            number=told.whole_number("number"),
            at=told.time("at"),
            action=told.text("action"),
            artifact=told.optional_text("artifact"),
            by=told.text("by"),
            why=told.text("why"),
            raw=told.raw,
        )


@dataclass(frozen=True, kw_only=True)
class Job(Raw):
    """Work on artifacts that takes long."""

    id: str
    model: str
    kind: str
    status: str
    """`waiting`, `running`, `done` or `failed`."""

    share: float | None
    """How much of it is done, from 0 to 1; None where nobody has said."""

    error: str | None
    result: Any
    """What came of it; of a fit, the name of the new artifact is its `artifact`."""

    asked_by: str
    asked_at: datetime
    ended_at: datetime | None

    @classmethod
    def of(cls, told: Fields) -> "Job":
        return cls(
            id=told.text("id"),
            model=told.text("model"),
            kind=told.text("kind"),
            status=told.text("status"),
            share=told.optional_number("share"),
            error=told.optional_text("error"),
            result=told.raw.get("result"),
            asked_by=told.text("asked_by"),
            asked_at=told.time("asked_at"),
            ended_at=told.optional_time("ended_at"),
            raw=told.raw,
        )
