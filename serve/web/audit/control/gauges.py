"""What Prometheus is told of controls."""

from collections.abc import Iterator
from math import nan

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from demur.serve.config.file import Config
from demur.serve.web.audit.control.view import controls_of, view_of
from demur.traffic.database import Database

WORDS = {
    "demur_control_value": "The value that was moved last: a price, a limit on confidence, or an error level of sets.",
    "demur_control_average": "What is controlled, on average over the stream so far; NaN before the first prediction.",
    "demur_control_target": "What the average is to come to, or to keep within, over the long run.",
    "demur_control_average_bound": "What the average is at most, whatever the stream was; NaN without a bound.",
    "demur_control_predictions": "Predictions that the average is over.",
    "demur_control_last_write_timestamp_seconds": "When the value was last written; NaN before the first time.",
}


class ControlCollector(Collector):
    """The control of each model that has one, at the moment of asking."""

    def __init__(self, config: Config, database: Database) -> None:
        self._config, self._database = config, database

    def describe(self) -> Iterator[Metric]:
        """Without asking the database, which may be away when the service starts."""
        yield from self._families().values()

    def collect(self) -> Iterator[Metric]:
        families = self._families()
        with self._database.transaction() as connection:
            views = [
                view_of(connection, name, self._config.models[name], control)
                for name, control in controls_of(self._config).items()
            ]
        for view in views:
            value, at = (view.lanes[0].value, view.lanes[0].updated_at.timestamp()) if view.lanes else (None, None)
            values = (value, view.average, view.target, view.upper, view.n, at)
            for family, number in zip(families.values(), values, strict=True):
                family.add_metric([view.model, view.kind], nan if number is None else number)
        yield from families.values()

    def _families(self) -> dict[str, GaugeMetricFamily]:
        return {name: GaugeMetricFamily(name, words, labels=["model", "kind"]) for name, words in WORDS.items()}
