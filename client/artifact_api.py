"""What can be asked about artifacts, as steps: which there are, which of them decides, and work that takes long."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict
from urllib.parse import quote
from uuid import UUID

from demur.client.artifact_results import ArtifactSummary, Change, Job, JobKind
from demur.client.errors import JobFailed, StillWaiting
from demur.client.fields import Fields
from demur.client.ids import id_of
from demur.client.items import encoded
from demur.client.steps import Attempts, Call, Pause, Steps

FIRST_LOOK = 0.5
"""Seconds until a job is looked at again; each time twice as long."""

LAST_LOOK = 10.0


class CanaryBounds(TypedDict, total=False):
    """What a canary may do."""

    share: float
    """Share of the traffic that it decides, such as 0.1."""

    held_between: Sequence[float]
    """Lowest and highest share of predictions that it may hold, such as [0.05, 0.4]."""

    max_risk: float
    """Highest share of its answers that may be wrong."""


class TimeRange(TypedDict, total=False):
    """Which records: those in [since, until). A time without a zone is one of this machine."""

    since: datetime
    until: datetime


class FitSettings(TimeRange, total=False):
    """How to fit on logged records."""

    every_outcome_known: bool
    """Outcomes come for every record, so that none stands for others."""

    anyway: bool
    """Store it even where the rows cannot carry the promise."""

    promote: bool
    """Put it in force at once, for the reason `why`."""

    why: str


class ArtifactApi:
    """What can be asked with the scope `admin`. Each method returns the steps that lead to its answer.

    What changes something is sent once: a rollback that is sent again goes one step further.
    """

    def __init__(self, attempts: Attempts, *, seconds: float) -> None:
        self._attempts = attempts
        self._seconds = seconds

    def listed(self, model: str) -> Steps[list[ArtifactSummary]]:
        told = yield from self._read(_path("artifacts", model))
        return told.objects("artifacts", ArtifactSummary.of)

    def history(self, model: str) -> Steps[list[Change]]:
        told = yield from self._read(_path("releases", model))
        return told.objects("changes", Change.of)

    def promote(self, model: str, artifact: str, *, why: str) -> Steps[Change]:
        return self._change(model, "promote", {"artifact": artifact, "why": why})

    def rollback(self, model: str, *, why: str) -> Steps[Change]:
        return self._change(model, "rollback", {"why": why})

    def shadow(self, model: str, artifact: str | None, *, why: str) -> Steps[Change]:
        return self._change(model, "shadow", {"artifact": artifact, "why": why})

    def canary(self, model: str, artifact: str | None, bounds: CanaryBounds, *, why: str) -> Steps[Change]:
        return self._change(model, "canary", {"artifact": artifact, **bounds, "why": why})

    def start(self, model: str, kind: JobKind, settings: dict[str, Any]) -> Steps[Job]:
        told = {name: _as_text(value) if isinstance(value, datetime) else value for name, value in settings.items()}
        answer = yield from self._send(_path("releases", model, "jobs"), {"kind": kind, **_given(told)})
        return Job.of(answer)

    def job(self, id: str | UUID) -> Steps[Job]:
        told = yield from self._read(f"/v1/jobs/{id_of(id)}")
        return Job.of(told)

    def wait(self, id: str | UUID, seconds: float | None) -> Steps[Job]:
        clock = self._attempts.clock
        deadline = float("inf") if seconds is None else clock() + seconds
        pause = FIRST_LOOK
        while True:
            job = yield from self.job(id)
            if job.status == "done":
                return job
            if job.status == "failed":
                raise JobFailed(f"{job.kind} of {job.model} failed: {job.error or 'nobody knows why'}")
            if (left := deadline - clock()) <= 0:
                raise StillWaiting(f"the job has not ended within {seconds:g} s; it is {job.status}")
            yield Pause(min(pause, left))
            pause = min(2 * pause, LAST_LOOK)

    def _change(self, model: str, action: str, body: dict[str, Any]) -> Steps[Change]:
        answer = yield from self._send(_path("releases", model, action), body)
        return Change.of(answer)

    def _read(self, path: str) -> Steps[Fields]:
        reply = yield from self._attempts.of(Call(method="GET", path=path), self._seconds)
        return self._attempts.answer(reply, path)

    def _send(self, path: str, body: dict[str, Any]) -> Steps[Fields]:
        takes = frozenset((200, 202))
        call = Call(method="POST", path=path, content=encoded(body), takes=takes, once=True)
        reply = yield from self._attempts.of(call, self._seconds)
        return self._attempts.answer(reply, path)


def _path(*parts: str) -> str:
    return "/".join(["/v1", *(quote(part, safe="") for part in parts)])


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _as_text(moment: datetime) -> str:
    return (moment if moment.tzinfo else moment.astimezone()).isoformat()
