"""Jobs on artifacts, done one at a time, each in a process of its own."""

import logging

from demur.calibration_store import model_jobs
from demur.calibration_store.model_jobs import JobLost, ModelJob
from demur.serve.config.file import Config
from demur.serve.jobs.child import command_of, run_child
from demur.traffic.database import Database

log = logging.getLogger("demur.jobs")

LEASE_SECONDS = 60.0
"""For so long a job is nobody else's; whoever is at it renews that long before."""

WORKER = command_of("demur.serve.jobs.models.worker")


class JobRunner:
    """Takes jobs and has them done. Several of them never do the same one."""

    def __init__(self, config: Config, database: Database, *, worker: tuple[str, ...] = WORKER) -> None:
        self._config, self._database, self._worker = config, database, worker

    def run_waiting(self) -> int:
        """Do everything that waits, and return how many jobs that were."""
        ran = 0
        while job := self._take():
            self._run(job)
            ran += 1
        return ran

    def _take(self) -> ModelJob | None:
        with self._database.transaction() as connection:
            return model_jobs.take(connection, lease_seconds=LEASE_SECONDS)

    def _run(self, job: ModelJob) -> None:
        most = self._config.audit.max_minutes
        told = {"config": self._config.model_dump(mode="json"), "job": str(job.id), "attempt": job.attempts}
        late = f"it took longer than {most:g} minutes (audit.max_minutes)"
        error = run_child(self._worker, told, seconds=most * 60, late=late)
        if error is None:
            return
        log.warning("%s of %s failed: %s", job.kind, job.model, error)
        try:
            with self._database.transaction() as connection:
                model_jobs.failed(connection, job, error)
        except JobLost as lost:
            log.warning("%s", lost)
