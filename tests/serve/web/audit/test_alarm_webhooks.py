"""Other systems are told of alarms as they are of cases: signed, once, and again after a failure."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest
from standardwebhooks.webhooks import Webhook
from starlette.testclient import TestClient

from demur.audit.state import alarms
from demur.audit.state.alarms import AlarmKind, OnAlarm
from demur.serve.config.webhooks import WebhookConfig
from demur.serve.jobs.webhooks import webhook_senders
from demur.serve.web.review.app import console_app
from tests.serve.jobs.test_webhooks import SECRET, Receiver, with_webhooks


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def subscribed(quickstart, receiver, **changes):
    settings = {"events": ("alarm",), "secret_env": "HOOK_SECRET", "most_attempts": 1, **changes}
    return with_webhooks(quickstart, WebhookConfig(url=receiver.url, **settings))


def raised(database, model="digits"):
    with database.transaction() as connection:
        return alarms.raise_alarm(
            connection,
            model=model,
            artifact=f"{model}-1",
            kind=AlarmKind.RISK,
            round=1,
            words="more answers are wrong than was promised",
            evidence={"p_value": 0.01},
            action=OnAlarm.TIGHTEN,
            floor=0.97,
        )


def sender(config, database, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    (one,) = webhook_senders(config, database, clock=lambda: datetime.now(UTC), rng=np.random.default_rng(0))
    return one


def test_a_webhook_is_told_of_an_alarm(quickstart, database, receiver, monkeypatch):
    telling = sender(subscribed(quickstart, receiver), database, monkeypatch)
    alarm = raised(database)
    assert telling.send() == 1
    assert telling.send() == 0
    ((_, headers, body),) = receiver.requests
    Webhook(SECRET).verify(body, headers)
    told = json.loads(body)
    assert told["type"] == "audit.alarm"
    assert told["data"]["id"] == alarm.id
    assert (told["data"]["action"], told["data"]["floor"]) == ("tighten", 0.97)
    assert told["data"]["evidence"] == {"p_value": 0.01}


@pytest.mark.parametrize("changes", [{"events": ("resolved",)}, {"models": ("digits",)}])
def test_others_are_not(quickstart, database, receiver, monkeypatch, changes):
    telling = sender(subscribed(quickstart, receiver, **changes), database, monkeypatch)
    raised(database, model="another")
    assert telling.send() == 0


def test_what_was_given_up_is_seen_and_sent_again(quickstart, database, receiver, monkeypatch):
    config = subscribed(quickstart, receiver)
    telling = sender(config, database, monkeypatch)
    alarm = raised(database)
    receiver.answer = lambda _number: 500
    telling.send()
    client = TestClient(console_app(config, database), root_path="/review", headers={"X-Demur-Reviewer": "ada"})
    (dead,) = client.get("/review/v1/webhooks").json()["dead"]
    assert (dead["event"], dead["case"], dead["alarm"]) == ("alarm", None, alarm.id)
    assert f"alarm {alarm.id}" in client.get("/review/webhooks").text
    receiver.answer = lambda _number: 204
    assert client.post(f"/review/v1/webhooks/deliveries/{dead['id']}/again").status_code == 202
    assert telling.send() == 1
    assert client.get("/review/v1/webhooks").json()["dead"] == []
