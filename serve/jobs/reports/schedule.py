"""When audits are due."""

from datetime import datetime, timedelta

from demur.audit.periods import last_boundary
from demur.audit.state import runs
from demur.audit.state.runs import AuditRun
from demur.serve.config.file import Config
from demur.traffic.database import Connection

SETTLING = timedelta(seconds=20)
"""After its range has ended an audit waits so long: until then what was decided within it may not be written yet."""


def plan_due(connection: Connection, config: Config, now: datetime) -> list[AuditRun]:
    """Plan what is due now, one audit of each model, and return it. It does not matter how often, or by how many, this
    is called; after a downtime the last period alone is due."""
    every = config.audit.every
    if every is None:
        return []
    until = last_boundary(now - SETTLING, every)
    return runs.plan(connection, list(config.models), until=until, window=config.audit.window)
