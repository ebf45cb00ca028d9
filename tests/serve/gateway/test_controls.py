"""A control steers what the artifact decides, through the handler; its value outlives the gateway that moved it."""

import asyncio
import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pytest
from uuid_utils.compat import uuid7

from demur.audit.state import control_states
from demur.policies.control import ControlledValue
from demur.policies.decision import Action
from demur.policies.review_price import price_run
from demur.policies.review_rate import rate_run
from demur.serve.config.control import settings_of
from demur.serve.config.file import Config, ModelConfig
from demur.serve.gateway.controls import Controls
from demur.serve.gateway.final_action import FinalAction, in_the_room, overruled
from demur.serve.gateway.safeguards import Safeguards
from demur.traffic.database import Database, DatabaseUnavailable
from tests.conftest import digit_rows
from tests.serve.conftest import make_handler
from tests.serve.scripted import configured

PRICE = {"kind": "review_price", "capacity": 0.1, "step": 0.05}
START = datetime(2026, 11, 21, tzinfo=UTC)


def controlled(config: Config, control, **changes) -> Config:
    model = config.models["digits"]
    told = {**model.model_dump(), "control": control, **changes}
    return config.model_copy(update={"models": {"digits": ModelConfig.model_validate(told)}})


def serve(handler, inputs):
    items = [{"model": "digits", "input": value} for value in inputs]

    async def main():
        return [done.record for done in await handler.predict_batch(json.dumps({"items": items}).encode(), None)]

    return asyncio.run(main())


class Gateway:
    """The controls of one gateway, at the moments that a test chooses."""

    def __init__(self, control, now=START):
        self.now = now
        self.models = {"toy": configured("binary", control=control, spot_check=0.5)}
        self.controls = Controls(self.models, clock=lambda: self.now, new_id=uuid7)

    def keep(self, database, seconds=1.0):
        self.now += timedelta(seconds=seconds)
        self.controls.keep(database)

    def decide(self, *confidences):
        steer = self.controls.of("toy").steer
        return [steer(Action.ANSWER if c >= 0.5 else Action.REVIEW, c, "toy-1").action for c in confidences]

    @property
    def course(self):
        return self.controls.of("toy").course


def lanes(database, gateway):
    with database.transaction() as connection:
        return control_states.states(connection, "toy", gateway.controls.of("toy").settings)


def floor_of(records):
    """The least confidence that the artifact answers: all that it holds lies below it."""
    held = [record.confidence for record in records if record.action != "answer"]
    floor = min(record.confidence for record in records if record.action == "answer")
    assert max(held, default=0.0) < floor
    return floor


@pytest.fixture
def plain(quickstart, local_host, database, digits):
    """Inputs, and what the artifact alone decides about them."""
    inputs = [row["input"] for row in digit_rows(digits)][:200]
    return inputs, serve(make_handler(quickstart, {"digits": local_host}, database), inputs)


@pytest.mark.parametrize("kind", ["review_price", "review_rate"])
def test_what_is_written_is_what_the_pure_function_says_also_over_a_restart(
    quickstart, local_host, database, plain, kind
):
    inputs, decided = plain
    confidences, floor = [record.confidence for record in decided], floor_of(decided)
    if kind == "review_price":
        control, expected = PRICE, price_run(confidences, 0.1, 0.05, floor=floor)
    else:
        control = {"kind": kind, "target": 0.1, "step": 0.05, "start": 0.9}
        expected = rate_run(confidences, 0.1, 0.05, 0.9, floor)
    config, steered = controlled(quickstart, control, spot_check=0.02), []
    for part in (inputs[:120], inputs[120:]):
        handler = make_handler(config, {"digits": local_host}, database)
        handler.polls["control"].look()
        steered += serve(handler, part)
        asyncio.run(handler.close())
    assert [record.action for record in steered] == expected.actions
    assert {"answer", "review"} <= {record.action for record in steered}
    assert all(f"; {kind}: " in record.reason for record in steered)
    assert all(record.label_probability == (1.0 if record.action == "review" else 0.02) for record in steered)


def test_a_limit_that_labels_have_moved_holds_what_lies_below_it(quickstart, local_host, database, plain):
    inputs, decided = plain
    config = controlled(quickstart, {"kind": "tracked_limit", "max_risk": 0.02, "start": 0.5}, spot_check=0.02)
    limit = sorted(record.confidence for record in decided)[100]
    model = config.models["digits"]
    with database.transaction() as connection:
        control_states.begin(
            connection,
            uuid7(),
            model="digits",
            settings=settings_of(model),
            course=asdict(ControlledValue(start=0.5, value=1 - limit)),
            holder=None,
            now=START,
        )
    handler = make_handler(config, {"digits": local_host}, database)
    handler.polls["control"].look()
    for before, after in zip(decided, serve(handler, inputs), strict=True):
        answered = before.action == "answer" and 1 - before.confidence <= 1 - limit
        assert after.action == ("answer" if answered else "review")
        assert "; tracked_limit: confidence" in after.reason


def test_what_a_failing_model_leaves_is_never_answered_and_waits_while_there_is_capacity(
    quickstart, local_host, database, clear_digit, monkeypatch
):
    async def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(local_host, "decide", fail)
    handler = make_handler(controlled(quickstart, {**PRICE, "step": 2.0}), {"digits": local_host}, database)
    records = serve(handler, [clear_digit] * 4)
    assert [record.action for record in records] == ["review", "abstain", "abstain", "abstain"]
    assert records[1].reason.startswith("the model failed on this input, and what is unknown is held; review_price: ")


def test_a_control_speaks_after_the_artifact_and_the_queue_has_the_last_word():
    control = Gateway(PRICE).controls.of("toy")
    said = FinalAction(Action.ANSWER, "confidence 0.60 is above 0.5")

    def end(decided, *, no_room, **named):
        return in_the_room(overruled(decided, "toy", **named, safeguards=Safeguards()), no_room)

    final = end(said, confidence=0.6, artifact="toy-1", control=control, no_room="the queue is full")
    assert final.action is Action.ABSTAIN
    assert final.reason.startswith("the queue is full; confidence 0.60 is above 0.5; review_price: ")
    assert end(said, confidence=0.6, artifact="toy-1", control=None, no_room="the queue is full") == said
    held = FinalAction(Action.REVIEW, "no")
    assert end(held, confidence=None, artifact=None, control=control, no_room="").action is Action.REVIEW


@pytest.mark.parametrize("control", [PRICE, {"kind": "review_rate", "target": 0.1, "step": 0.05}])
def test_another_gateway_goes_on_where_one_has_left(database, control):
    first = Gateway(control)
    first.keep(database)
    first.decide(*[0.6, 0.7, 0.99, 0.3] * 5)
    first.keep(database)
    assert first.course.n == 20
    first.controls.close(database)
    second = Gateway(control, first.now + timedelta(seconds=1))
    second.keep(database)
    assert second.course == first.course
    assert len(lanes(database, second)) == 1


def test_beside_one_that_lives_another_begins_at_its_value_and_counts_for_itself(database):
    first = Gateway(PRICE)
    first.keep(database)
    first.decide(*[0.6] * 10)
    first.keep(database)
    second = Gateway(PRICE, first.now)
    second.keep(database)
    assert second.course == ControlledValue.at(first.course.value)
    second.decide(0.6)
    second.keep(database)
    assert sorted(lane.course["n"] for lane in lanes(database, second)) == [1, 10]


def test_a_crashed_gateway_is_followed_after_a_while(database):
    first = Gateway(PRICE)
    first.keep(database)
    first.decide(*[0.6] * 10)
    first.keep(database)
    second = Gateway(PRICE, first.now + control_states.LEFT_AFTER + timedelta(seconds=2))
    second.keep(database)
    assert second.course == first.course
    first.decide(0.6)
    first.keep(database)  # it had only been asleep: it loses its lane, and what it knows is written to another
    first.keep(database)
    assert {lane.holder for lane in lanes(database, second)} == {
        first.controls.of("toy")._holder,
        second.controls.of("toy")._holder,
    }


def test_with_other_settings_the_count_begins_anew(database):
    first = Gateway(PRICE)
    first.decide(*[0.6] * 10)
    first.keep(database)
    first.controls.close(database)
    other = Gateway({**PRICE, "capacity": 0.2}, first.now)
    other.keep(database)
    assert other.course.n == 0
    assert len(lanes(database, other)) == 1


def test_without_a_database_what_was_known_stays(database, dsn):
    gateway = Gateway(PRICE)
    away = Database(dsn.replace("host=", "host=/nowhere/"), patience_seconds=0.1)
    with pytest.raises(DatabaseUnavailable):
        gateway.keep(away)
    gateway.keep(database)
    gateway.decide(*[0.6] * 10)
    before = gateway.course
    gateway.keep(away)
    assert gateway.course == before
    gateway.keep(database)
    assert lanes(database, gateway)[0].course["n"] == 10
    away.close()


def test_the_history_is_thinned(database):
    gateway = Gateway(PRICE)
    for _ in range(1000):
        gateway.keep(database, seconds=max(1.0, (gateway.now - START).total_seconds() / 50))
        if (gateway.now - START) > timedelta(days=2000):
            break
    with database.transaction() as connection:
        points = control_states.history(connection, lanes(database, gateway)[0].lane)
    assert 100 < len(points) <= control_states.MOST_POINTS
    assert [p.at for p in points] == sorted(p.at for p in points)
