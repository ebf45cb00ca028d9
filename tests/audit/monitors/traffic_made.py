"""Traffic that tests put straight into the database: a model that is wrong at a known rate, and its reviewers."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
from uuid_utils.compat import uuid7

from demur.audit.monitors.feeding import WatchedArtifact
from demur.audit.monitors.risk import RiskSettings
from demur.audit.monitors.traffic import TrafficSettings
from demur.audit.state.alarms import OnAlarm
from demur.review import queue
from demur.review.item import Kind
from demur.traffic import log
from tests.conftest import entry, new_case

START = datetime(2026, 11, 21, tzinfo=UTC)
SPOT_CHECK = 0.1
CONFIDENT = 2.2
"""Mean of the model's logits, with a deviation of 1.6."""


def watched(**changes):
    """How model `toy` is watched: at most 10% of its answers may be wrong."""
    values = {
        "model": "toy",
        "artifact": "toy-1",
        "role": "in force",
        "since": START,
        "risk": RiskSettings(target=0.1, delta=0.05),
        "floor": SPOT_CHECK,
        "traffic": TrafficSettings(delta=0.01, reference=200),
        "window": 200,
        "on_alarm": OnAlarm.NOTIFY,
        "tighten_to": 0.5,
        "loss": lambda label: float(label.prediction != label.truth),
        "precedence": (),
    }
    return WatchedArtifact(**{**values, **changes})


class Service:
    """Decides, and has people check; one second lies between two records."""

    def __init__(self, database, seed=0, model="toy", artifact="toy-1"):
        self.database, self.model, self.artifact = database, model, artifact
        self.rng = np.random.default_rng(seed)
        self.at = START
        self.answered: list[UUID] = []

    def serve(self, n, *, wrong=0.05, shift=0.0, limit=0.8, labelled=True):
        """Write `n` records, and the reviewers' word about those answers that were drawn. Return the latter's ids."""
        confidence = 1 / (1 + np.exp(-self.rng.normal(CONFIDENT + shift, 1.6, n)))
        checked = []
        entries = []
        for c in confidence.tolist():
            self.at += timedelta(seconds=1)
            answers = c >= limit
            record_id = uuid7()
            entries.append(
                entry(
                    id=record_id,
                    created_at=self.at,
                    model=self.model,
                    artifact=self.artifact,
                    prediction="7",
                    confidence=c,
                    scores={"softmax_response": 1 - c, "entropy": None},
                    action="answer" if answers else "review",
                    label_probability=SPOT_CHECK if answers else 1.0,
                )
            )
            if answers:
                self.answered.append(record_id)
                if self.rng.random() < SPOT_CHECK:
                    checked.append((record_id, "1" if self.rng.random() < wrong else "7"))
        with self.database.transaction() as connection:
            log.append(connection, entries)
            drawn = {record_id for record_id, _ in checked}
            queue.enqueue(
                connection, [new_case(one, kind=Kind.SPOT_CHECK) for one in entries if one.record.id in drawn]
            )
        if labelled:
            self.review(checked)
        return checked

    def review(self, checked):
        with self.database.transaction() as connection:
            for record_id, label in checked:
                log.add_outcome(connection, record_id, label=label, source="review", author="ada")
