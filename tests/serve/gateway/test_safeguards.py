"""What alarms hold back at the gateway: from whichever door an answer would have left."""

import asyncio
import json
from datetime import timedelta

import openai
import pytest

from demur.audit.state import alarms
from demur.audit.state.alarms import AlarmKind, OnAlarm, floor_for
from demur.review import queue
from demur.serve.config.file import ModelConfig
from demur.serve.config.review import ReviewConfig
from demur.serve.gateway.safeguards import Safeguards
from demur.serve.web.native.app import gateway_app
from demur.traffic.arrivals import arrived
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.record import HELD_BY_ALARM
from tests.conftest import digit_rows
from tests.serve.conftest import make_handler
from tests.serve.web.openai.test_chat import MODEL, ScriptedHost, ask, configured, listening


def alarm(database, action=OnAlarm.HOLD_ALL, floor=None, model="digits", round=1):
    with database.transaction() as connection:
        return alarms.raise_alarm(
            connection,
            model=model,
            artifact=f"{model}-1",
            kind=AlarmKind.RISK,
            round=round,
            words="more answers are wrong than was promised",
            evidence={"p_value": 0.01},
            action=action,
            floor=floor,
        )


def undo(database, one):
    with database.transaction() as connection:
        alarms.mark_undone(connection, one.id, by="ada", why="it is mended")


def predict(handler, *values, key=None):
    items = [{"model": "digits", "input": value} for value in values]
    done = asyncio.run(handler.predict_batch(json.dumps({"items": items}).encode(), key))
    return [one.record for one in done]


def cases_of(database):
    with database.transaction() as connection:
        return dict(connection.execute("select record_id, kind from review_items").fetchall())


@pytest.fixture
def checked(quickstart, local_host, database):
    """A handler that also draws spot checks, and may be told other settings."""

    def make(most_waiting=None, **model):
        digits = quickstart.models["digits"]
        digits = ModelConfig.model_validate({**digits.model_dump(), "spot_check": 0.25, **model})
        config = quickstart.model_copy(
            update={"models": {"digits": digits}, "review": ReviewConfig(most_waiting=most_waiting)}
        )
        return make_handler(config, {"digits": local_host}, database)

    return make


def test_hold_all_holds_every_answer_until_a_person_undoes_it(checked, database, clear_digit, doubtful_digit):
    handler = checked()
    (before,) = predict(handler, clear_digit, key="first")
    one = alarm(database)
    assert predict(handler, clear_digit)[0].action == "answer"  # it has not looked yet
    handler.polls["alarms"].look()
    held, doubtful = predict(handler, clear_digit, doubtful_digit)
    assert (held.action, held.label_probability) == ("review", 1.0)
    assert held.reason == (
        f"{HELD_BY_ALARM}{one.id}, which holds all answers of digits until a person undoes it; else: {before.reason}"
    )
    assert held.prediction == before.prediction  # a person sees what would have been said
    assert cases_of(database)[held.id] == "held"
    assert doubtful.action == "review"
    assert not doubtful.reason.startswith(HELD_BY_ALARM)
    assert predict(handler, clear_digit, key="first")[0].id == before.id  # what was said was said
    undo(database, one)
    handler.polls["alarms"].look()
    assert predict(handler, clear_digit)[0].action == "answer"


def test_an_alarm_that_only_tells_holds_nothing(checked, database, clear_digit):
    alarm(database, OnAlarm.NOTIFY)
    handler = checked()
    handler.polls["alarms"].look()
    assert predict(handler, clear_digit)[0].action == "answer"


def test_it_survives_a_restart_and_holds_the_next_artifact_too(checked, database, clear_digit):
    alarm(database)  # about an artifact that is not the one in force
    handler = checked()
    handler.polls["alarms"].look()
    assert predict(handler, clear_digit)[0].action == "review"


def test_other_models_go_on(checked, database, clear_digit):
    alarm(database, model="another")
    handler = checked()
    handler.polls["alarms"].look()
    assert predict(handler, clear_digit)[0].action == "answer"


def test_tighten_holds_what_is_less_sure_and_loosens_nothing(checked, database, digits):
    handler = checked()
    rows = [row["input"] for row in digit_rows(digits)[:200]]
    before = predict(handler, *rows)
    floor = floor_for([one.confidence for one in before if one.action == "answer"], 0.5)
    alarm(database, OnAlarm.TIGHTEN, floor=floor)
    alarm(database, OnAlarm.TIGHTEN, floor=floor / 2, round=2)  # the strictest counts
    handler.polls["alarms"].look()
    after = predict(handler, *rows)
    for old, new in zip(before, after, strict=True):
        assert new.confidence == old.confidence
        sure = floor is not None and new.confidence >= floor
        assert new.action == ("answer" if old.action == "answer" and sure else "review")
        assert new.reason.startswith(HELD_BY_ALARM) == (old.action == "answer" and not sure)
    answered = sum(one.action == "answer" for one in after)
    assert answered <= sum(one.action == "answer" for one in before) / 2


def test_an_unknown_confidence_is_below_every_floor():
    guards = Safeguards()
    guards._known = {"digits": alarms.Safeguard(model="digits", alarm_id=7, floor=0.0)}
    assert guards.why_held("digits", None).startswith("held by alarm 7: confidence unknown is below 0")
    assert guards.why_held("digits", 0.0) == ""


def test_with_a_full_queue_it_abstains(checked, database, clear_digit):
    alarm(database)
    handler = checked(most_waiting=2)
    handler.polls["counting"].look()
    handler.polls["alarms"].look()
    done = predict(handler, *[clear_digit] * 60)
    assert [one.action for one in done] == ["review"] * 2 + ["abstain"] * 58
    assert done[2].reason.startswith(HELD_BY_ALARM)  # so that monitors know whose doing it is
    assert "the review queue is full: 2 cases wait" in done[2].reason
    assert done[2].label_probability == 0.25
    assert "spot_check" in cases_of(database).values()


def test_what_is_known_stays_in_force_while_the_database_is_away(checked, database, clear_digit, caplog):
    class Away:
        def transaction(self):
            raise DatabaseUnavailable("PostgreSQL does not answer")

    now = [0.0]
    guards = Safeguards(clock=lambda: now[0])
    with pytest.raises(DatabaseUnavailable):
        guards.look(Away())  # it must not start without
    one = alarm(database)
    guards.look(database)
    for now[0] in (1, 11, 12, 3600):
        guards.look(Away())
        assert guards.holds_all("digits")
    assert [r.levelname for r in caplog.records if r.name == "demur.safeguards"] == ["ERROR", "ERROR"]
    assert "alarms could not be looked up for 11 s, and those of before stand" in caplog.text
    undo(database, one)
    guards.look(database)
    assert not guards.holds_all("digits")


@pytest.mark.parametrize("stream", ["hold", "tentative"])
def test_a_chat_is_held_and_nothing_of_it_is_streamed(database, stream):
    config = configured(talker={"chat": {**MODEL["chat"], "stream": stream}})
    handler = make_handler(config, {"talker": ScriptedHost()}, database)
    alarm(database, model="talker")
    handler.polls["alarms"].look()
    with (
        listening(gateway_app(handler, max_body_bytes=100_000)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
    ):
        assert ask(client, "surely two").choices[0].message.content == MODEL["chat"]["refusal"]
        chunks = ask(client, "surely two", stream=True)
        said = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
        assert "surely" not in said
        assert said == MODEL["chat"]["refusal"]


def test_a_tentative_stream_below_the_floor_is_taken_back(database):
    config = configured(talker={"chat": {**MODEL["chat"], "stream": "tentative"}})
    handler = make_handler(config, {"talker": ScriptedHost()}, database)
    alarm(database, OnAlarm.TIGHTEN, floor=0.95, model="talker")
    handler.polls["alarms"].look()
    with (
        listening(gateway_app(handler, max_body_bytes=100_000)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
    ):
        *_, last = ask(client, "surely two", stream=True)
        assert last.demur["action"] == "review"
        assert last.demur["reason"].startswith(HELD_BY_ALARM)


@pytest.mark.parametrize(
    ("confidences", "keep", "floor"),
    [
        ([0.9, 0.8, 0.7, 0.6], 0.5, 0.8),
        ([0.9, 0.8, 0.8, 0.6], 0.5, 0.9),  # of equals all or none
        ([1.0, 1.0, 1.0, 0.6], 0.5, None),  # too many are equally sure: none may be answered
        ([0.9, None, None, None], 0.5, 0.9),
        ([None, None], 0.5, None),
        ([], 0.5, None),
        ([0.9, 0.8, 0.7], 0.99, 0.8),
    ],
)
def test_floor_for(confidences, keep, floor):
    assert floor_for(confidences, keep) == floor


def test_the_watch_of_a_canary_is_not_disturbed(checked, database, clear_digit):
    """What an alarm holds counts there as the artifact decided it, or every canary would end with the alarm."""
    alarm(database)
    handler = checked()
    handler.polls["alarms"].look()
    (held,) = predict(handler, clear_digit)
    soon = held.created_at + timedelta(seconds=1)
    with database.transaction() as connection:
        (one,) = arrived(connection, "digits", held.artifact, since=held.created_at, until=soon, after=None, most=10)
    assert (held.action, one.action) == ("review", "answer")


def test_cases_held_by_an_alarm_are_worked_like_any_other(checked, database, clear_digit):
    alarm(database)
    handler = checked()
    handler.polls["alarms"].look()
    (held,) = predict(handler, clear_digit)
    with database.transaction() as connection:
        assert queue.claim_next(connection, "ada", lease_seconds=60).case_id == held.id
