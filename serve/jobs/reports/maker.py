"""Making audits that are due or asked for, one at a time, each in a process of its own."""

import logging

from demur.audit.state import runs
from demur.audit.state.runs import AuditRun, RunLost
from demur.serve.config.file import Config
from demur.serve.jobs.child import command_of, run_child
from demur.traffic.database import Database

log = logging.getLogger("demur.audits")

LEASE_SECONDS = 60.0
"""For so long a run is nobody else's; whoever is at it renews that long before."""

WORKER = command_of("demur.serve.jobs.reports.worker")


class AuditMaker:
    """Takes what is to be made and has it made. Several of them never make the same."""

    def __init__(self, config: Config, database: Database, *, worker: tuple[str, ...] = WORKER) -> None:
        self._config, self._database, self._worker = config, database, worker

    def make_due(self) -> int:
        """Make everything that waits, and return how many audits that were."""
        made = 0
        while run := self._take():
            self._make(run)
            made += 1
        return made

    def _take(self) -> AuditRun | None:
        with self._database.transaction() as connection:
            return runs.take(connection, lease_seconds=LEASE_SECONDS)

    def _make(self, run: AuditRun) -> None:
        error = self._run(run)
        if error is None:
            return
        log.warning("the audit of %s until %s failed: %s", run.model, run.until.isoformat(), error)
        try:
            with self._database.transaction() as connection:
                runs.failed(connection, run, error)
        except RunLost as lost:
            log.warning("%s", lost)

    def _run(self, run: AuditRun) -> str | None:
        """What went wrong; None where it was noted, or is another's business by now."""
        most = self._config.audit.max_minutes
        told = {"config": self._config.model_dump(mode="json"), "run": str(run.id), "attempt": run.attempts}
        late = f"it took longer than {most:g} minutes (audit.max_minutes)"
        return run_child(self._worker, told, seconds=most * 60, late=late)
