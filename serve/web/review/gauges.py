"""Gauges of the queue for Prometheus, read from the database whenever they are asked for."""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from demur.review.outbox import Pending, pending
from demur.review.statistics import QueueState, standings
from demur.traffic.database import Database

GAUGES: dict[str, tuple[str, Callable[[QueueState], float]]] = {
    "demur_review_waiting": ("Cases that nobody has taken.", lambda now: now.waiting),
    "demur_review_claimed": ("Cases that somebody is looking at.", lambda now: now.claimed),
    "demur_review_adjudication": ("Cases on which people disagree or could not tell.", lambda now: now.adjudication),
    "demur_review_oldest_waiting_seconds": (
        "Age of the oldest case that waits for somebody; 0 where none does.",
        lambda now: now.oldest_seconds,
    ),
    "demur_review_overdue": ("Open cases whose due time has passed.", lambda now: now.overdue),
    "demur_review_resolved_per_hour": ("Cases resolved in the last hour.", lambda now: now.resolved_last_hour),
    "demur_review_disagreement_ratio": (
        "Share of the cases of the last 7 days that several people looked at on which they did not agree.",
        lambda now: now.disagreed / now.compared if now.compared else float("nan"),
    ),
}


WEBHOOKS: dict[str, tuple[str, Callable[[Pending], float]]] = {
    "demur_review_webhooks_waiting": ("Messages to other systems that have not arrived yet.", lambda of: of.waiting),
    "demur_review_webhooks_dead": ("Messages to other systems that were given up.", lambda of: of.dead),
}
"""Over all addresses: these are for those who lead reviews alone."""


class QueueCollector(Collector):
    """The standing of each configured model's queue, and of any other that has cases, at the moment of asking."""

    def __init__(self, database: Database, models: Sequence[str]) -> None:
        self._database, self._models = database, models

    def describe(self) -> Iterator[Metric]:
        """Without asking the database, which may be away when the service starts."""
        yield from (GaugeMetricFamily(name, words) for name, (words, _) in GAUGES.items())
        yield from (GaugeMetricFamily(name, words) for name, (words, _) in WEBHOOKS.items())

    def collect(self) -> Iterator[Metric]:
        with self._database.transaction() as connection:
            found = {standing.model: standing for standing in standings(connection)}
            webhooks = pending(connection)
        for model in self._models:
            found.setdefault(model, QueueState.empty(model))
        for name, (words, value) in GAUGES.items():
            family = GaugeMetricFamily(name, words, labels=["model"])
            for model, standing in sorted(found.items()):
                family.add_metric([model], value(standing))
            yield family
        for name, (words, count) in WEBHOOKS.items():
            yield GaugeMetricFamily(name, words, value=sum(count(webhook) for webhook in webhooks))
