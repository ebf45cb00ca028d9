"""What is done again and again beside everything else."""

import logging
import threading
import time
from collections.abc import Callable

from demur.calibration_store.folder import ArtifactsUnreachable
from demur.traffic.database import DatabaseUnavailable

log = logging.getLogger("demur.deployments")


def every(seconds: float, job: Callable[[], object], *, name: str) -> None:
    """Do a job again and again beside everything else. One that fails is logged, and tried again next time."""

    def work() -> None:
        while True:
            time.sleep(seconds)
            try:
                job()
            except (ArtifactsUnreachable, DatabaseUnavailable) as error:  # its own words say where to look
                log.error("%s failed: %s; trying again in %g s", name, error, seconds)
            except Exception:
                log.exception("%s failed; trying again in %g s", name, seconds)

    threading.Thread(target=work, name=name, daemon=True).start()
