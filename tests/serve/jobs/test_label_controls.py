"""Labels move a limit, or an error level: as the pure functions say, once each, whoever looks and however often."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from uuid_utils.compat import uuid7

from demur.audit.state import control_events, control_states
from demur.policies.adaptive import ipw_adaptive_alphas
from demur.policies.control import ControlledValue
from demur.policies.tracked_limit import TrackedLimit
from demur.review import queue
from demur.review.item import Kind
from demur.serve.config.control import settings_of
from demur.serve.gateway.controls import Controls
from demur.serve.jobs import label_controls
from demur.serve.jobs.label_controls import SETTLED, LabelControls
from demur.traffic import log
from tests.conftest import entry, new_case, resolve
from tests.serve.scripted import configured

CLASSIFIER = {
    "host": {"kind": "classifier", "checkpoint": "none"},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
}
LIMIT = {"kind": "tracked_limit", "max_risk": 0.05, "step": 0.02, "start": 0.5}


class Stream:
    """Decisions and labels at moments that a test chooses, and the job that looks at them."""

    def __init__(self, database, control=LIMIT, **sections):
        self.database = database
        self.model = configured("multiclass", control=control, spot_check=0.5, **sections)
        self.now = datetime.now(UTC)
        self.job = self.another()
        self.records = []

    def another(self):
        config = SimpleNamespace(models={"toy": self.model})
        return LabelControls(config, self.database, clock=lambda: self.now, new_id=uuid7)

    def decide(self, *actions, **changes):
        with self.database.transaction() as connection:
            for action in actions:
                one = entry(
                    created_at=datetime.now(UTC),
                    action=action,
                    label_probability=1.0 if action == "review" else 0.5,
                    **{"prediction": "red", "prediction_set": ["red"], **changes},
                )
                log.append(connection, [one])
                self.records.append(one.record)

    def label(self, at, outcome, kind=Kind.SPOT_CHECK):
        with self.database.transaction() as connection:
            queue.enqueue(connection, [new_case(self.records[at], kind=kind)])
        with self.database.transaction() as connection:
            resolve(connection, self.records[at].id, "ada", outcome)

    def look(self):
        self.now = datetime.now(UTC) + SETTLED + timedelta(seconds=1)
        self.job.look()

    @property
    def lanes(self):
        with self.database.transaction() as connection:
            return control_states.states(connection, "toy", settings_of(self.model))

    @property
    def course(self):
        (lane,) = self.lanes
        return ControlledValue(**lane.course)


@pytest.fixture
def stream(database):
    begun = Stream(database)
    begun.job.look()
    return begun


def test_a_tracked_limit_follows_what_is_held_and_what_is_labelled(stream):
    rule = TrackedLimit(target=0.05, step=0.02)
    stream.decide("answer", "review", "abstain", "answer", "answer")
    stream.decide("review", prediction=None, artifact=None)
    stream.label(0, "blue")
    stream.label(3, "red")
    stream.look()
    limit = 0.5
    for move in ((False,), (False,), (False,), (True, 1.0, 2.0), (True, 0.0, 2.0)):
        limit = rule.next_limit(limit, *move)
    assert stream.course.value == limit
    assert stream.course.n == 6
    assert stream.course.average == pytest.approx((3 * 0.05 + 2 * 0.95 - 2 * 0.05) / 6)
    assert stream.lanes[0].artifact == "toy-1"


def test_everything_counts_once_however_often_and_whoever_looks(stream, monkeypatch):
    monkeypatch.setattr(label_controls, "AT_A_TIME", 3)
    stream.decide(*["answer", "review"] * 5)
    stream.label(0, "blue")
    stream.look()
    first = stream.course
    stream.look()
    stream.job = stream.another()
    stream.look()
    assert stream.course == first
    assert first.n == 10
    stream.decide("answer")
    stream.label(2, "blue")
    stream.look()
    assert stream.course.n == 11
    assert stream.course.value < first.value


def test_a_label_of_what_was_held_moves_no_limit(stream):
    stream.decide("review")
    stream.look()
    before = stream.course
    stream.label(0, "blue", kind=Kind.HELD)
    stream.look()
    assert stream.course == before


def test_words_from_outside_move_nothing(stream):
    """Somebody complains: the probability of that is unknown, whether the record was drawn or not."""
    stream.decide("answer", "answer")
    with stream.database.transaction() as connection:
        queue.enqueue(connection, [new_case(stream.records[0], kind=Kind.SPOT_CHECK)])
        for record in stream.records:
            log.add_outcome(connection, record.id, label="blue", source="api", author="caller")
    stream.look()
    assert stream.course.value == 0.5


def test_what_happened_a_moment_ago_waits(stream):
    stream.decide("review")
    stream.now = datetime.now(UTC) + timedelta(seconds=1)
    stream.job.look()
    assert stream.course.n == 0


def test_gateways_learn_the_limit(stream):
    gateway = Controls({"toy": stream.model}, clock=lambda: stream.now, new_id=uuid7)
    stream.decide(*["answer"] * 3)
    for at in range(3):
        stream.label(at, "blue")
    stream.look()
    gateway.keep(stream.database)
    assert gateway.of("toy").course == stream.course
    assert gateway.of("toy").course.value == pytest.approx(0.5 - 3 * 0.02 * 2 * 0.95)


def test_an_adaptive_level_follows_every_drawn_label(database):
    stream = Stream(
        database,
        {"kind": "adaptive_sets", "alpha": 0.1, "step": 0.01},
        policy={"kind": "conformal"},
        prediction_set={"kind": "split", "keep_predicted": False},
        **CLASSIFIER,
    )
    stream.job.look()
    stream.decide("answer", "review", "abstain", "answer")
    stream.decide("review", prediction=None)  # nothing was said: there was no set
    stream.label(0, "blue")
    stream.label(1, "red", kind=Kind.HELD)
    stream.label(2, "green")
    stream.label(4, "green", kind=Kind.HELD)
    stream.look()
    assert stream.course.value == ipw_adaptive_alphas(0.1, 0.01, [1, 0, 1], [2.0, 1.0, 2.0])[-1]
    assert stream.course.n == 4
    assert stream.course.average == pytest.approx(0.1 + (2 * 0.9 - 0.1 + 2 * 0.9) / 4)


def test_one_model_that_fails_does_not_keep_others_from_moving(stream, monkeypatch, caplog):
    monkeypatch.setattr(control_events, "_labels", lambda *_: 1 / 0)
    stream.look()
    stream.look()
    assert sum("stays where it is" in record.message for record in caplog.records) == 1
