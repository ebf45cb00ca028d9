"""What `demur` tells Ray of itself as a program that starts work on other processes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ray.job_config import JobConfig


def isolated_job() -> "JobConfig":
    """Return a job whose workers import from installed packages only.

    Ray puts the current folder of the driver, and the folder of its script, before everything else on the search path
    of each worker. A user's `json.py` or `audit/` there would be imported in place of the module that was meant. A job
    that has a working folder of its own gets neither, so this one says that it has one.
    """
    from ray.job_config import JobConfig

    job = JobConfig()
    job._runtime_env_has_working_dir = lambda: True
    return job
