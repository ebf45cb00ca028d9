"""Gauges of monitors and alarms for Prometheus, read from the database whenever they are asked for."""

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from demur.audit.state.alarms import AlarmKind
from demur.serve.config.file import Config
from demur.serve.web.audit.monitors.view import MonitorsPage, monitor_json, sight
from demur.traffic.database import Database

OF_ARTIFACTS: dict[str, tuple[str, str]] = {
    "demur_monitor_log_wealth": (
        "log_wealth",
        "Evidence against the promised risk by what reviewers say, as a logarithm.",
    ),
    "demur_monitor_corrected_log_wealth": (
        "corrected_log_wealth",
        "The same without the errors of reviewers. It decides where it is known.",
    ),
    "demur_monitor_alarm_line": ("alarm_line", "The log wealth at which there is an alarm."),
    "demur_monitor_p_value": ("p_value", "How surprising the wealth would be if the promise held; valid at any time."),
    "demur_monitor_risk_target": ("target", "Share of the answers that may be wrong."),
    "demur_monitor_risk": ("risk", "Weighted share of the checked answers that were wrong."),
    "demur_monitor_risk_lower": ("risk_lower", "Lower end of the interval for a steady risk; valid at any time."),
    "demur_monitor_risk_upper": ("risk_upper", "Upper end of the interval for a steady risk; valid at any time."),
    "demur_monitor_labelled": ("labelled", "Checked answers that were counted since the monitor began."),
    "demur_monitor_wrong": ("errors", "Of the checked answers, those that were wrong."),
    "demur_monitor_records": ("records", "Records that were counted since the monitor began."),
    "demur_monitor_answered": ("answered", "Of these records, those that were answered."),
    "demur_monitor_never_checked": ("never_checked", "Answers that could not have been drawn for a check."),
    "demur_monitor_exchangeability_log_martingale": (
        "exchangeability_log_martingale",
        "Evidence that confidences no longer come as they did in the reference, as a logarithm.",
    ),
    "demur_monitor_held_ratio": ("held", "Share of the latest records that was not answered."),
    "demur_monitor_held_reference_ratio": ("held_reference", "The same share in the reference."),
    "demur_monitor_labels_psi": ("labels_psi", "Population stability index of the predicted labels."),
    "demur_monitor_labels_p_value": ("labels_p_value", "Of that index, looked at once."),
}
"""By name: the field of a monitor, and what it says. What is not known yet is left out."""

OF_SCORES: dict[str, tuple[str, str]] = {
    "demur_monitor_psi": ("psi", "Population stability index of the latest records against the reference."),
    "demur_monitor_psi_p_value": ("psi_p_value", "Of that index, looked at once."),
    "demur_monitor_ks": ("ks", "Largest gap between both distributions (Kolmogorov and Smirnov)."),
    "demur_monitor_ks_p_value": ("ks_p_value", "Of that gap, looked at once."),
}

OF_CLASSES: dict[str, tuple[str, str]] = {
    "demur_monitor_class_ratio": ("now", "Share of a class now, estimated from what is predicted."),
    "demur_monitor_class_labelled_ratio": ("labelled", "The same share among the labelled rows."),
}

ALARMS = ("demur_alarms_active", "Alarms that nobody has undone.")
SAFEGUARDS = ("demur_safeguards_active", "Alarms that hold answers, by what they do.")
LAST_LOOK = ("demur_monitor_last_look_timestamp_seconds", "When monitors last took in what had come.")
BLIND = ("demur_monitor_blind", "1 where the last try to look at the monitors failed.")


class MonitorCollector(Collector):
    """Where the monitors of all watched models stand at the moment of asking."""

    def __init__(self, config: Config, database: Database) -> None:
        self._database = database
        self._models = [name for name, model in config.models.items() if model.watched]

    def describe(self) -> Iterator[Metric]:
        """Without asking the database, which may be away when the service starts."""
        for name, (_, words) in {**OF_ARTIFACTS, **OF_SCORES, **OF_CLASSES}.items():
            yield GaugeMetricFamily(name, words)
        for name, words in (ALARMS, SAFEGUARDS, LAST_LOOK, BLIND):
            yield GaugeMetricFamily(name, words)

    def collect(self) -> Iterator[Metric]:
        with self._database.transaction() as connection:
            seen = sight(connection, self._models)
        known = [monitor_json(one) for one in seen.standings]
        for name, (field, words) in OF_ARTIFACTS.items():
            yield _family(
                name, words, ["model", "artifact"], [((one["model"], one["artifact"]), one[field]) for one in known]
            )
        for name, (field, words) in OF_SCORES.items():
            rows = [
                ((one["model"], one["artifact"], drift["name"]), drift[field])
                for one in known
                for drift in one["drift"]
            ]
            yield _family(name, words, ["model", "artifact", "score"], rows)
        for name, (field, words) in OF_CLASSES.items():
            rows = [
                ((one["model"], one["artifact"], known_class["label"]), known_class[field])
                for one in known
                for known_class in one["classes"]
            ]
            yield _family(name, words, ["model", "artifact", "label"], rows)
        yield from self._alarms(seen)

    def _alarms(self, seen: MonitorsPage) -> Iterator[Metric]:
        counts = {(model, kind.value): 0 for model in self._models for kind in AlarmKind}
        acting = {(model, action): 0 for model in self._models for action in ("tighten", "hold_all")}
        for alarm in seen.in_force:
            counts[alarm.model, alarm.kind] = counts.get((alarm.model, alarm.kind), 0) + 1
            if alarm.acted_at is not None:
                acting[alarm.model, alarm.action] = acting.get((alarm.model, alarm.action), 0) + 1
        yield _family(*ALARMS, ["model", "kind"], list(counts.items()))
        yield _family(*SAFEGUARDS, ["model", "action"], list(acting.items()))
        looks = {model: seen.looks.get(model) for model in self._models}
        yield _family(
            *LAST_LOOK, ["model"], [((m,), look.at.timestamp() if look else 0.0) for m, look in looks.items()]
        )
        yield _family(*BLIND, ["model"], [((m,), float(bool(look and look.trouble))) for m, look in looks.items()])


def _family(name: str, words: str, labels: list[str], rows: Sequence[tuple[tuple[str, ...], Any]]) -> Metric:
    family = GaugeMetricFamily(name, words, labels=labels)
    for values, number in rows:
        if number is not None:
            family.add_metric(list(values), number)
    return family
