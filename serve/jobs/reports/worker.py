"""One audit in a process of its own, so that the pages stay quick: `python -m demur.serve.jobs.reports.worker`.

The first line of its input says what to do, as JSON. The input stays open for as long as whoever started it lives: when
it ends, so does this process, and what it had begun is taken up by somebody else. What goes wrong is its last line on
standard error.
"""

import json
import os
import sys
import threading
import traceback
from uuid import UUID

from uuid_utils.compat import uuid7

from demur.audit.report.audit import NothingToAudit
from demur.audit.state import reports, runs
from demur.audit.state.runs import AuditRun, RunLost
from demur.serve.config.file import Config
from demur.serve.jobs.reports.found_broken import tell_if_broken
from demur.serve.jobs.reports.maker import LEASE_SECONDS, LOST
from demur.serve.jobs.reports.making import ReportRequest, keep_rows, make, settled
from demur.traffic.database import Database, DatabaseUnavailable

TELL_SECONDS = 2.0
"""How often it is written down how far the audit has come."""


class Telling:
    """Keeps the lease and writes down how far an audit has come, in a thread of its own."""

    def __init__(self, database: Database, run: AuditRun) -> None:
        self._database, self._run = database, run
        self._told = ("starting", 0.0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="telling", daemon=True)
        self._thread.start()

    def progress(self, stage: str, done: int, total: int) -> None:
        self._told = (stage, done / total if total else 0.0)

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        while not self._over.is_set():
            stage, share = self._told
            try:
                with self._database.transaction() as connection:
                    runs.keep(connection, self._run, stage=stage, share=share, lease_seconds=LEASE_SECONDS)
            except DatabaseUnavailable:
                pass  # it may be back before the lease has run out
            except RunLost as error:
                print(error, file=sys.stderr, flush=True)
                os._exit(LOST)
            self._over.wait(TELL_SECONDS)


def work(config: Config, database: Database, run: AuditRun) -> None:
    """Make the audit and store its report, or note that there was nothing to audit. Errors are whoever asked for it to
    note."""
    telling = Telling(database, run)
    try:
        wish = ReportRequest(
            model=run.model,
            since=run.since,
            until=run.until,
            as_of=settled(database, run.until),
            max_risk=config.model(run.model).max_risk,
            every_outcome_known=run.model in config.audit.every_outcome_known,
        )
        try:
            made = make(config, database, wish, telling.progress)
        except NothingToAudit as error:
            telling.end()
            with database.transaction() as connection:
                runs.nothing(connection, run, str(error))
            return
        id = uuid7()
        rows_at = keep_rows(config, made, id)
        telling.end()
        with database.transaction() as connection:
            reports.store(connection, made.to_store(planned=run.planned, made_by=run.asked_by, rows_at=rows_at), id)
            runs.done(connection, run, id)
            tell_if_broken(connection, id)
    finally:
        telling.end()


def main() -> None:
    told = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    os.nice(10)
    config = Config.model_validate(told["config"])
    database = Database(config.database, max_connections=4)
    try:
        with database.transaction() as connection:
            run = runs.run_of(connection, UUID(told["run"]))
        if run is None or run.attempts != told["attempt"]:
            sys.exit(LOST)
        work(config, database, run)
    except Exception as error:
        traceback.print_exc()
        words = " ".join(str(error).split())
        sys.exit(f"{type(error).__name__}: {words}" if words else type(error).__name__)


def _end_with_the_input() -> None:
    while sys.stdin.read(4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
