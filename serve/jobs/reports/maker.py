"""Making audits that are due or asked for, one at a time, each in a process of its own."""

import json
import logging
import os
import subprocess
import sys
import tempfile
from contextlib import suppress

from demur.audit.state import runs
from demur.audit.state.runs import AuditRun, RunLost
from demur.serve.config.file import Config
from demur.traffic.database import Database

log = logging.getLogger("demur.audits")

LEASE_SECONDS = 60.0
"""For so long a run is nobody else's; whoever is at it renews that long before."""

LOST = 3
"""Exit status of a worker whose run another process has taken."""

WORKER = (sys.executable, "-P", "-m", "demur.serve.jobs.reports.worker")


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
        told = {
            "config": self._config.model_dump(mode="json"),
            "run": str(run.id),
            "attempt": run.attempts,
        }
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                self._worker, stdin=subprocess.PIPE, stdout=said, stderr=said, env=environment, start_new_session=True
            )
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(told).encode() + b"\n")
                process.stdin.flush()  # and it stays open: it closes when this process ends
                process.wait(self._config.audit.max_minutes * 60)
            except BrokenPipeError:
                process.wait()
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return f"it took longer than {self._config.audit.max_minutes:g} minutes (audit.max_minutes)"
            finally:
                with suppress(BrokenPipeError):
                    process.stdin.close()
            if process.returncode in (0, LOST):
                return None
            said.seek(0)
            words = said.read().decode(errors="replace").strip()
        if words:
            log.warning("%s", words)
        last = words.splitlines()[-1] if words else ""
        return last[:500] or f"the process that made it ended with status {process.returncode}"
