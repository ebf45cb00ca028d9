"""What the auditors' application does by itself, again and again."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import fsspec
from uuid_utils.compat import uuid7

from demur.audit.state import reports, runs
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.jobs.label_controls import LabelControls
from demur.serve.jobs.monitor_watch import MonitorWatch
from demur.serve.jobs.reports.maker import AuditMaker
from demur.serve.jobs.reports.schedule import plan_due
from demur.traffic.database import Database

log = logging.getLogger("demur.audits")

PLAN_SECONDS = 10.0
"""How often it is looked whether an audit is due."""

LOOK_SECONDS = 1.0
"""How often it is looked whether an audit is to be made: somebody who asked for one waits."""

CONTROL_SECONDS = 1.0
"""How often labels are looked for that move a control."""

MONITOR_SECONDS = 5.0
"""How often monitors take in what has come."""

FORGET_SECONDS = 3600.0
"""How often reports are looked for whose time is up."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Done every so many seconds, by each replica: of two that do it at once, one must find nothing to do. One that
    raises is logged, and done again the next time."""

    name: str
    seconds: float
    do: Callable[[], object]


def jobs(config: Config, database: Database) -> Sequence[Job]:
    """All of them, in no order."""
    maker = AuditMaker(config, database)
    controls = LabelControls(config, database, clock=lambda: datetime.now(UTC), new_id=uuid7)
    monitors = MonitorWatch(config, ArtifactStore(config.artifacts), database)
    return [
        Job(name="audits that are due", seconds=PLAN_SECONDS, do=lambda: _plan(config, database)),
        Job(name="making audits", seconds=LOOK_SECONDS, do=maker.make_due),
        Job(name="monitors", seconds=MONITOR_SECONDS, do=monitors.look),
        Job(name="control by labels", seconds=CONTROL_SECONDS, do=controls.look),
        Job(name="forgetting audits", seconds=FORGET_SECONDS, do=lambda: _forget(config, database)),
    ]


def _plan(config: Config, database: Database) -> None:
    with database.transaction() as connection:
        plan_due(connection, config, datetime.now(UTC))


def _forget(config: Config, database: Database) -> None:
    with database.transaction() as connection:
        forgotten = reports.forget(connection, keep_days=config.audit.keep_days)
        runs.forget_runs(connection)
    for report in forgotten:
        if report.rows_at is not None:
            files, path = fsspec.core.url_to_fs(report.rows_at)
            with suppress(FileNotFoundError):
                files.rm_file(path)
    if forgotten:
        log.info("%d reports whose time was up are deleted", len(forgotten))
