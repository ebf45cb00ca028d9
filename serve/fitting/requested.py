"""Jobs on artifacts as somebody asked for them: what each one does, and what comes back."""

from datetime import UTC, datetime
from typing import Any

from demur.calibration_store.model_jobs import ModelJob
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.fitting.compare import compare_on_traffic
from demur.serve.fitting.fit import fit_on_traffic
from demur.serve.fitting.replay import replay_traffic
from demur.serve.fitting.rerun import Progress
from demur.traffic.database import Database


def result_of(config: Config, database: Database, job: ModelJob, *, progress: Progress) -> Any:
    """Do a job, and return its result as JSON has it. Whatever it raises is the reason why it failed."""
    settings = job.settings
    since, until = _moment(settings.get("since")), _moment(settings.get("until"))
    if job.kind == "compare":
        return compare_on_traffic(
            config,
            job.model,
            settings["a"],
            settings["b"],
            database,
            since=since,
            until=until or datetime.now(UTC),
            progress=progress,
        ).as_json()
    if job.kind == "replay":
        return replay_traffic(
            config, job.model, settings["artifact"], database, since=since, until=until, progress=progress
        ).as_json()
    return _fit(config, database, job, since=since, until=until, progress=progress)


def _fit(
    config: Config,
    database: Database,
    job: ModelJob,
    *,
    since: datetime | None,
    until: datetime | None,
    progress: Progress,
) -> dict[str, Any]:
    settings = job.settings

    def clock() -> datetime:
        return datetime.now(UTC)

    done = fit_on_traffic(
        config,
        job.model,
        database,
        since=since,
        until=until,
        every_outcome_known=bool(settings.get("every_outcome_known")),
        clock=clock,
        progress=progress,
        anyway=bool(settings.get("anyway")),
    )
    if settings.get("promote"):
        why = str(settings.get("why", ""))
        ArtifactStore(config.artifacts).promote(job.model, done.name, by=job.asked_by, why=why, clock=clock)
    return {
        "artifact": done.name,
        "promoted": bool(settings.get("promote")),
        "promises": [promise.statement for _, promise in done.fit.promises],
        "n_fitted": done.fit.n_fitted,
        "n_reported": done.fit.n_reported,
        "report": dict(done.fit.report),
        "remarks": done.remarks,
    }


def _moment(told: str | None) -> datetime | None:
    return None if told is None else datetime.fromisoformat(told)
