"""What Prometheus is told of audits."""

from collections.abc import Iterator
from datetime import UTC, datetime
from math import nan

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from demur.audit.state import reports, runs
from demur.serve.config.file import Config
from demur.traffic.database import Database

WORDS = {
    "demur_audit_verdict": "1 for what the latest report of each model says of its promise, 0 for all else.",
    "demur_audit_report_age_seconds": "Since the range of the latest report ended; NaN where there is none.",
    "demur_audit_risk_ratio": "Share of wrong answers among the answered by the latest report, with its 95% interval.",
    "demur_audit_max_risk_ratio": "The share of wrong answers that was promised; NaN where nothing was.",
    "demur_audit_failed_attempts": "Attempts to audit a model that have failed since its last report.",
}
LABELS = {
    "demur_audit_verdict": ["model", "verdict"],
    "demur_audit_risk_ratio": ["model", "bound"],
}


class AuditCollector(Collector):
    """The latest report of each configured model, at the moment of asking."""

    def __init__(self, config: Config, database: Database) -> None:
        self._models, self._database = list(config.models), database

    def describe(self) -> Iterator[Metric]:
        """Without asking the database, which may be away when the service starts."""
        yield from self._families().values()

    def collect(self) -> Iterator[Metric]:
        with self._database.transaction() as connection:
            latest = {report.extent.model: report for report in reports.latest(connection)}
            failed = runs.failures(connection)
        now, families = datetime.now(UTC), self._families()
        for model in self._models:
            report = latest.get(model)
            summary = report.summary if report else None
            risk = summary.figure("selective_risk") if summary else None
            age = (now - report.extent.until).total_seconds() if report else nan
            for verdict in reports.VERDICTS:
                said = summary is not None and summary.verdict == verdict
                families["demur_audit_verdict"].add_metric([model, verdict], float(said))
            for bound, value in (
                ("estimate", risk.value if risk else nan),
                ("lower", risk.low if risk else nan),
                ("upper", risk.high if risk else nan),
            ):
                families["demur_audit_risk_ratio"].add_metric([model, bound], value)
            families["demur_audit_report_age_seconds"].add_metric([model], age)
            families["demur_audit_max_risk_ratio"].add_metric([model], summary.max_risk if summary else nan)
            families["demur_audit_failed_attempts"].add_metric([model], failed.get(model, 0))
        yield from families.values()

    def _families(self) -> dict[str, GaugeMetricFamily]:
        return {
            name: GaugeMetricFamily(name, words, labels=LABELS.get(name, ["model"])) for name, words in WORDS.items()
        }
