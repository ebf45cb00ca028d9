"""A Ray for one command."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from demur.serve.local.private_run import private_run
from demur.serve.local.ray_job import isolated_job
from demur.serve.local.ray_patience import patient_start


@contextmanager
def own_ray() -> Iterator[None]:
    """A Ray to work on: that of RAY_ADDRESS, else one of this machine's own for as long as it takes."""
    with private_run() as (folder, _):
        import ray  # here, because importing it reads the environment

        if joined := os.environ.get("RAY_ADDRESS"):
            ray.init(address=joined, logging_level="error", log_to_driver=False, job_config=isolated_job())
        else:
            with patient_start():
                ray.init(
                    address="local",
                    include_dashboard=False,
                    logging_level="error",
                    log_to_driver=False,
                    job_config=isolated_job(),
                    _temp_dir=str(folder.ray),
                )
        try:
            yield
        finally:
            ray.shutdown()
