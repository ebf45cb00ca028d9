"""What goes over HTTP about artifacts: the bodies that are taken and given, as the OpenAPI document shows them."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from demur.calibration_store.model_jobs import JobStatus
from demur.serve.contract.wire import Body, Listed, Word

Why = Field(min_length=1, max_length=1000, description="The reason. It stays in the history.")


class PromoteRequest(Body):
    """Put an artifact in force."""

    artifact: Word
    why: str = Why


class RollbackRequest(Body):
    """Put the artifact in force again that was in force before the present one."""

    why: str = Why


class ShadowRequest(Body):
    """Let an artifact decide beside the one in force; null ends that."""

    artifact: Word | None
    why: str = Why


class CanaryRequest(Body):
    """Let an artifact decide a share of the traffic; null ends that."""

    artifact: Word | None
    share: float | None = Field(default=None, gt=0, lt=1, description="Share of the traffic that it decides.")
    held_between: Listed[float] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="Lowest and highest share of predictions that it may hold; beyond it the canary ends by itself.",
    )
    max_risk: float | None = Field(
        default=None, gt=0, lt=1, description="Highest share of its answers that may be wrong."
    )
    why: str = Why


class JobRequest(Body):
    """Work that takes long, on logged records in [since, until)."""

    kind: Literal["fit", "compare", "replay"]
    since: datetime | None = Field(default=None, strict=False, description="By default everything that is logged.")
    until: datetime | None = Field(default=None, strict=False)
    a: Word | None = Field(default=None, description="`compare`: one artifact.")
    b: Word | None = Field(default=None, description="`compare`: the other one.")
    artifact: Word | None = Field(default=None, description="`replay`: what would this artifact have decided?")
    every_outcome_known: bool = Field(
        default=False, description="`fit`: outcomes come for every record, so that none stands for others."
    )
    anyway: bool = Field(default=False, description="`fit`: store it even where the rows cannot carry the promise.")
    promote: bool = Field(default=False, description="`fit`: put it in force at once.")
    why: str = Field(default="", max_length=1000, description="`fit` with `promote`: the reason.")


TAKEN = (PromoteRequest, RollbackRequest, ShadowRequest, CanaryRequest, JobRequest)
"""Bodies that are parsed by hand."""


class StandingView(BaseModel):
    in_force: str | None
    shadow: str | None
    canary: dict[str, Any] | None


class ChangeView(BaseModel):
    """One entry of the history."""

    number: int
    at: str
    action: str
    artifact: str | None
    by: str
    why: str
    standing: StandingView = Field(description="Which artifacts decide after it.")


class ArtifactSummary(BaseModel):
    name: str
    role: Literal["in force", "shadow", "canary"] | None
    created_at: str | None
    fitted_on: dict[str, Any]
    policy: str | None
    promises: list[str]
    ece: float | None
    selective_risk: float | None
    coverage: float | None
    refused: str | None = Field(description="Why it cannot be read; null where it can.")


class RefusedFitView(BaseModel):
    """A fit that stored nothing."""

    at: str
    why: str
    data: str = Field(description="What it was fitted on.")


class ArtifactList(BaseModel):
    model: str
    standing: StandingView
    artifacts: list[ArtifactSummary] = Field(description="The newest first.")
    refused_fit: RefusedFitView | None = Field(
        description="The last fit, where it was refused; null where something was fitted since."
    )


class DiffRowView(BaseModel):
    key: str
    values: list[str] = Field(description="Of `a` and of `b`, in words; a dash is what is not there.")
    differs: bool


class DiffSectionView(BaseModel):
    name: str
    rows: list[DiffRowView]


class ArtifactDiff(BaseModel):
    a: str
    b: str
    sections: list[DiffSectionView]


class History(BaseModel):
    model: str
    changes: list[ChangeView] = Field(description="The oldest first.")


class JobView(BaseModel):
    id: UUID
    model: str
    kind: Literal["fit", "compare", "replay"]
    settings: dict[str, Any]
    asked_by: str
    asked_at: datetime
    status: JobStatus
    share: float | None = Field(description="How much of it is done.")
    error: str | None = Field(description="Why it failed.")
    result: Any = Field(
        description="What came of it; its form depends on the kind. Null in a list. Of a fit that was refused because"
        " its labels cannot carry the promise it is `reach`: what they could carry, and what would help."
    )
    ended_at: datetime | None


class JobList(BaseModel):
    model: str
    jobs: list[JobView] = Field(description="The newest first, at most 100.")
