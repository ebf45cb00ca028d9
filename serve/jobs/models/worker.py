"""One job on artifacts in a process of its own: `python -m demur.serve.jobs.models.worker`.

The first line of its input says what to do, as JSON. What goes wrong is its last line on standard error.
"""

import sys
import threading
import traceback
from uuid import UUID

from demur.calibration_store import model_jobs
from demur.calibration_store.model_jobs import JobLost, ModelJob
from demur.calibration_store.shortfall import PromiseOutOfReach
from demur.serve.config.file import Config
from demur.serve.fitting.requested import result_of
from demur.serve.jobs.child import LOST, in_one_line, told_to_child
from demur.serve.jobs.models.runner import LEASE_SECONDS
from demur.traffic.database import Database, DatabaseUnavailable

TELL_SECONDS = 2.0
"""How often it is written down how much is done."""


class LeaseKeeper:
    """Keeps the lease and writes down how much is done, in a thread of its own."""

    def __init__(self, database: Database, job: ModelJob) -> None:
        self._database, self._job, self._share = database, job, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="telling", daemon=True)
        self._thread.start()

    def progress(self, done: int, total: int) -> None:
        self._share = done / total if total else 0.0

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        while not self._over.is_set():
            try:
                with self._database.transaction() as connection:
                    model_jobs.keep(connection, self._job, share=self._share, lease_seconds=LEASE_SECONDS)
            except DatabaseUnavailable:
                pass  # the lease lasts longer than a moment without the database
            except JobLost:
                return  # the result will not be taken either
            self._over.wait(TELL_SECONDS)


def work(config: Config, database: Database, job: ModelJob) -> None:
    """Do the job and store its result. Errors are whoever asked for it to note."""
    telling = LeaseKeeper(database, job)
    try:
        result = result_of(config, database, job, progress=telling.progress)
    except PromiseOutOfReach as error:
        if error.reach is not None:
            with database.transaction() as connection:
                model_jobs.keep_result(connection, job, {"reach": error.reach.as_json()})
        raise
    finally:
        telling.end()
    with database.transaction() as connection:
        model_jobs.done(connection, job, result)


def main() -> None:
    told = told_to_child()
    config = Config.model_validate(told["config"])
    database = Database(config.database, max_connections=4)
    try:
        with database.transaction() as connection:
            job = model_jobs.job_of(connection, UUID(told["job"]))
        if job.attempts != told["attempt"]:
            sys.exit(LOST)
        work(config, database, job)
    except JobLost:
        sys.exit(LOST)
    except Exception as error:
        traceback.print_exc()
        sys.exit(in_one_line(error))


if __name__ == "__main__":
    main()
