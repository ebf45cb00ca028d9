"""What the pages and the API of reports share: asking for an audit, and holding one report against another."""

from datetime import UTC, datetime
from uuid import UUID

from demur.audit import changes
from demur.audit.changes import ReportComparison
from demur.audit.state import reports, runs
from demur.audit.state.runs import AuditRun
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.audit.site import Site
from demur.traffic.database import Connection

FARTHEST = 1_000_000
"""Reports that can be leafed through."""

MOST_RUNS = 50

LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)


def asked(site: Site, name: str, model: str, since: datetime, until: datetime, *, any_range: bool = False) -> AuditRun:
    """Ask for an audit of a model that is served, in a range that has ended; with `any_range` an open one will do."""
    if model not in site.config.models:
        raise InvalidRequest(f"model: there is no model {model!r}; there are: {', '.join(site.config.models)}")
    if not since < until <= site.clock():
        raise InvalidRequest("since, until: a range begins before it ends, and ends now at the latest")
    if since < LONG_AGO:
        raise InvalidRequest("since: choose a moment after 1900")
    with site.database.transaction() as connection:
        return runs.ask(connection, model, since=since, until=until, asked_by=name, any_range=any_range)


def compared(connection: Connection, id: UUID, other: UUID) -> ReportComparison:
    """Hold a report against another one of the same model; the later one is now, whichever was named first."""
    one, two = reports.report(connection, id), reports.report(connection, other)
    if one.extent.model != two.extent.model:
        raise InvalidRequest("reports of different models are not compared; choose two of one model")
    now, then = sorted((one, two), key=lambda of: (of.extent.until, of.made_at), reverse=True)
    return changes.compared(now, then)
