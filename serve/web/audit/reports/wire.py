"""What the auditors' API gives and takes, as its document shows it."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field

from demur.audit.changes import ReportComparison
from demur.audit.state.reports import Report
from demur.audit.state.runs import AuditRun, RunStatus
from demur.serve.contract.fields import fields_of
from demur.serve.contract.wire import Body, Word


class FigureView(BaseModel):
    name: str
    words: str
    value: float | None
    low: float | None = Field(description="Where the 95% interval begins.")
    high: float | None
    share: bool = Field(description="Whether it is a share, between 0 and 1.")


class LabelledView(BaseModel):
    name: str
    records: int
    labelled: int = Field(description="Of how many of them the truth is known.")


class ReportView(BaseModel):
    """A report without its numbers."""

    id: UUID
    model: str
    since: datetime
    until: datetime = Field(description="The first moment that is not in it.")
    as_of: datetime = Field(description="Nothing that became known later is in it.")
    planned: bool = Field(description="Made by the schedule.")
    made_by: str
    made_at: datetime
    command: str = Field(description="Makes the same report again.")
    version: str
    verdict: str = Field(description="`kept`, `broken`, `not enough evidence` or `nothing was promised`.")
    why: str
    max_risk: float | None = Field(description="The share of wrong answers that was promised, at most.")
    figures: list[FigureView]
    labels: list[LabelledView]
    artifacts: dict[str, int] = Field(description="How many records each artifact decided.")
    rows: bool = Field(description="Whether the rows behind it were kept.")
    previous: UUID | None = Field(description="The one that it is compared with unless you say otherwise.")


class FullReport(ReportView):
    document: dict[str, Any] = Field(description="Every number.")


class ReportList(BaseModel):
    reports: list[ReportView] = Field(description="Newest first.")
    more: bool


class FigureChange(BaseModel):
    name: str
    words: str
    now: FigureView
    then: FigureView
    difference: float | None
    intervals: str = Field(description="`apart`, `overlap` or `unknown`.")


class ComparisonView(BaseModel):
    """Two reports of one model."""

    now: UUID
    then: UUID
    verdict_changed: bool
    promise_changed: bool
    lengths_differ: bool
    common_seconds: float = Field(description="How much of their ranges both are about.")
    figures: list[FigureChange]


class RunView(BaseModel):
    """An audit that is to be made, is being made, or led to no report."""

    id: UUID
    model: str
    since: datetime
    until: datetime
    planned: bool
    asked_by: str
    asked_at: datetime
    status: RunStatus
    attempts: int
    try_at: datetime
    stage: str | None
    share: float | None = Field(description="How much of the stage is done.")
    error: str | None
    report: UUID | None


class RunList(BaseModel):
    runs: list[RunView]


class AuditRequest(Body):
    """An audit that is to be made now."""

    model: Word
    since: AwareDatetime = Field(strict=False)
    until: AwareDatetime | None = Field(default=None, strict=False, description="By default now.")


def report_json(report: Report) -> dict[str, Any]:
    """`ReportView`."""
    return fields_of(
        ReportView,
        report.extent,
        report.summary,
        report,
        rows=report.rows_at is not None,
        previous=report.previous_id,
    )


def comparison_json(found: ReportComparison) -> dict[str, Any]:
    """`ComparisonView`."""
    return fields_of(
        ComparisonView,
        found,
        now=found.now.id,
        then=found.then.id,
        common_seconds=found.common.total_seconds(),
    )


def run_json(run: AuditRun) -> dict[str, Any]:
    """`RunView`."""
    return fields_of(RunView, run, report=run.report_id)
