"""When audits are due."""

from datetime import UTC, datetime, timedelta

from demur.audit import runs
from demur.audit.runs import AuditRun
from demur.serve.config.file import Config
from demur.traffic.database import Connection

A_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
"""From which boundaries are counted: those of whole days fall on midnight, those of whole weeks on Mondays."""

SETTLING = timedelta(seconds=20)
"""After its range has ended an audit waits so long: until then what was decided within it may not be written yet."""


def last_boundary(now: datetime, every: timedelta) -> datetime:
    """The end of the last whole period, at or before `now`."""
    return A_MONDAY + (now - A_MONDAY) // every * every


def next_boundary(now: datetime, every: timedelta) -> datetime:
    return last_boundary(now, every) + every


def plan_due(connection: Connection, config: Config, now: datetime) -> list[AuditRun]:
    """Plan what is due now, one audit of each model, and return it. It does not matter how often, or by how many, this
    is called; after a downtime the last period alone is due."""
    every = config.audit.every
    if every is None:
        return []
    until = last_boundary(now - SETTLING, every)
    return runs.plan(connection, list(config.models), until=until, window=config.audit.window)
