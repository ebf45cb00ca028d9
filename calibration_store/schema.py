"""The table of jobs on artifacts."""

from pathlib import Path

from demur.traffic.database import migrations_in

JOB_MIGRATIONS = migrations_in("calibration_store", Path(__file__).parent / "migrations")
