"""A scheduled audit that finds a promise broken raises an alarm."""

from uuid import UUID

import orjson

from demur.audit.report.judgement import PromiseVerdict
from demur.audit.state import reports
from demur.audit.state.alarms import Alarm, AlarmKind, in_force, raise_alarm
from demur.traffic.database import Connection


def tell_if_broken(connection: Connection, report_id: UUID) -> Alarm | None:
    """Raise an alarm where this report, made on schedule, has the verdict broken, the scheduled one before had another,
    and no such alarm is on. It tells and does nothing else: its interval is for one look, and audits look every day.
    None where there is nothing new."""
    report = reports.report(connection, report_id)
    if not report.planned or report.summary.verdict != PromiseVerdict.BROKEN:
        return None
    if report.previous_id and reports.report(connection, report.previous_id).summary.verdict == PromiseVerdict.BROKEN:
        return None
    extent = report.extent
    if any(one.model == extent.model and one.kind == AlarmKind.AUDIT for one in in_force(connection)):
        return None
    row = connection.execute(
        "select coalesce(max(round), 0) + 1 from alarms where model = %s and kind = %s", (extent.model, AlarmKind.AUDIT)
    ).fetchone()
    assert row is not None
    document = orjson.loads(reports.document_of(connection, report_id))
    broken = [one for one in document["headline"]["judgements"] if one["verdict"] == PromiseVerdict.BROKEN]
    made_by = sorted({artifact for one in broken for artifact in one["artifacts"]})
    return raise_alarm(
        connection,
        model=extent.model,
        artifact=", ".join(made_by or document["records"]["artifacts"]),
        kind=AlarmKind.AUDIT,
        round=row[0],
        words=f"an audit of {extent.since:%Y-%m-%d %H:%M} to {extent.until:%Y-%m-%d %H:%M} UTC found a promise broken:"
        f" {report.summary.why}",
        evidence={"report": str(report_id), "judgements": broken},
    )
