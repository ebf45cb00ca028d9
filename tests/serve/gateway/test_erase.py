"""The input and the reply of a prediction are erased by its id, once and for all; its record stays."""

import hashlib
import json
from datetime import UTC, datetime
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest
from starlette.testclient import TestClient

from demur.review import cases, outbox, queue
from demur.serve.config.file import Config
from demur.serve.jobs.webhooks import body_of, webhook_senders
from demur.traffic import log
from tests.conftest import entry, new_case, resolve
from tests.fuzz.served import config, mounted, served


@pytest.fixture
def site(database):
    apps, known = served(database)
    with TestClient(mounted(apps), headers={"X-Demur-Reviewer": "ada"}) as client:
        yield client, known, database


def predict(client, **more):
    told = client.post("/v1/predict", json={"model": "words", "input": "my secret", **more})
    assert told.status_code == 200
    return told.json()["id"]


def test_input_reply_and_drafts_go_and_the_record_stays(site):
    client, known, database = site
    record_id = known.records[-1]  # of a writer, held
    claim = client.post(f"/review/v1/cases/{record_id}/claim").json()
    draft = {"token": claim["token"], "draft": {"comment": "it says my secret"}}
    assert client.post(f"/review/v1/cases/{record_id}/heartbeat", json=draft).status_code == 200
    erased = client.delete(f"/v1/predictions/{record_id}/payload")
    assert erased.status_code == 200
    assert erased.json()["erased_by"] == "ada"
    with database.transaction() as connection:
        assert log.find_input(connection, record_id) is None
        assert log.find_one(connection, record_id).reply is None
        assert connection.execute("select count(*) from review_drafts").fetchone() == (0,)
        assert cases.case(connection, record_id).status.value == "withdrawn"
    view = client.get(f"/v1/predictions/{record_id}").json()
    assert view["erased_at"] == erased.json()["erased_at"]
    page = client.get(f"/review/cases/{record_id}")
    assert page.status_code == 200
    assert "no longer kept" in page.text
    assert "its input was erased" in page.text
    assert client.get("/review/v1/export?model=writer&format=jsonl").status_code == 200


NAME = "Maria"
"""Stands in all that a caller says about one prediction."""


def everything_in(database):
    """Every row of every table, as text."""
    with database.transaction() as connection:
        tables = connection.execute(
            "select relname from pg_class where relnamespace = current_schema::regnamespace and relkind = 'r'"
        ).fetchall()
        return {
            table: "\n".join(row for (row,) in connection.execute(f"select one::text from {table} one").fetchall())
            for (table,) in tables
        }


def tables_with(database, text):
    return {table for table, rows in everything_in(database).items() if text in rows}


@pytest.fixture
def told(site, monkeypatch):
    """A prediction about somebody, held, answered, told to a webhook that is away, with a draft about a second look."""
    client, _, database = site
    monkeypatch.setenv("ERASE_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    hook = {"url": "http://127.0.0.1:9/hook", "secret_env": "ERASE_SECRET", "events": ["resolved"]}
    hooked = Config.model_validate({**config().model_dump(), "review": {"undo_seconds": 0, "webhooks": [hook]}})
    (sender,) = webhook_senders(hooked, database, clock=lambda: datetime.now(UTC), rng=np.random.default_rng(0))
    asked = {"model": "words", "input": f"{NAME} has a cold", "group": f"family of {NAME}", "cluster": f"{NAME}-7"}
    headers = {"Idempotency-Key": f"order-{NAME}"}
    for at in range(3):  # of which one is held
        first = client.post("/v1/predict", json=asked, headers={"Idempotency-Key": f"{at}-order-{NAME}"}).json()
        if first["action"] == "review":
            headers = {"Idempotency-Key": f"{at}-order-{NAME}"}
            held = first["id"]
    path = f"/review/v1/cases/{held}"
    token = client.post(f"{path}/claim").json()["token"]
    client.post(f"{path}/heartbeat", json={"token": token, "draft": {"comment": f"is this {NAME}?"}})
    client.post(f"{path}/release", json={"token": token})
    with database.transaction() as connection:
        resolve(connection, UUID(held), "bob", "7")
    assert sender.send() == 1  # it did not arrive, and what it said is kept
    with database.transaction() as connection:  # the others go whole
        connection.execute("delete from idempotency_keys where record_id <> %s", (held,))
        connection.execute("delete from payloads where record_id <> %s", (held,))
        connection.execute("delete from records r where id <> %s and model = 'words'"
                           " and not exists (select from review_items where record_id = r.id)", (held,))  # fmt: skip
    return held, asked, headers


def test_nothing_that_the_caller_said_is_left_in_any_table(site, told):
    client, _, database = site
    held, asked, headers = told
    digest = hashlib.sha256(json.dumps(["predict", asked], sort_keys=True).encode()).hexdigest()
    before = {"records", "payloads", "review_items", "review_drafts", "webhook_deliveries", "idempotency_keys"}
    assert tables_with(database, NAME) == before
    assert tables_with(database, digest) == set()
    first = client.get(f"/v1/predictions/{held}").json()
    assert client.delete(f"/v1/predictions/{held}/payload").status_code == 200
    assert tables_with(database, NAME) == set()
    again = client.post("/v1/predict", json=asked, headers=headers)
    assert again.headers["idempotent-replay"] == "true"
    assert {name: again.json()[name] for name in ("id", "prediction", "action", "confidence")} == {
        name: first[name] for name in ("id", "prediction", "action", "confidence")
    }
    assert client.post("/v1/predict", json={**asked, "input": "another"}, headers=headers).status_code == 409
    assert tables_with(database, NAME) == set()


def test_a_webhook_that_is_told_later_hears_no_more_of_it(site, told, monkeypatch):
    client, _, database = site
    held, _, _ = told
    client.delete(f"/v1/predictions/{held}/payload")
    with database.transaction() as connection:
        ((delivery,),) = connection.execute("select id from webhook_deliveries").fetchall()
        connection.execute("update webhook_deliveries set next_at = now(), leased_until = null")
        (again,) = outbox.take(connection, "http://127.0.0.1:9/hook", lease_seconds=60, most_attempts=12, limit=9)
        assert again.id == delivery
        assert again.body is None
        body = json.dumps(body_of(connection, again, config()), default=str)
    assert NAME not in body
    assert held in body


def test_to_ask_again_deletes_what_a_backup_brought_back(site, told):
    client, _, database = site
    held, _, _ = told
    path = f"/v1/predictions/{held}/payload"
    first = client.delete(path).json()
    with database.transaction() as connection:
        connection.execute('update records set "group" = %s where id = %s', (NAME, held))
        connection.execute("insert into payloads (record_id, input) values (%s, %s)", (held, json.dumps(NAME)))
    assert client.delete(path).json() == first
    assert tables_with(database, NAME) == set()


def test_an_input_whose_time_is_up_leaves_no_key_to_guess_it_by(site, told):
    client, _, database = site
    _, asked, headers = told
    with database.transaction() as connection:
        connection.execute("update payloads set expires_at = now() - interval '1 day'")
        queue.forget_inputs(connection)
    assert "idempotency_keys" not in tables_with(database, NAME)
    assert client.post("/v1/predict", json=asked, headers=headers).headers["idempotent-replay"] == "true"


def test_to_erase_twice_is_to_erase_once(site):
    client, known, database = site
    path = f"/v1/predictions/{known.records[0]}/payload"
    first = client.delete(path).json()
    assert client.delete(path, headers={"X-Demur-Reviewer": "bob"}).json() == first
    with database.transaction() as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("delete from erased_payloads")


@pytest.mark.parametrize(("id", "status"), [(uuid4(), 404), ("7", 422)])
def test_what_is_unknown_is_not_erased(site, id, status):
    assert site[0].delete(f"/v1/predictions/{id}/payload").status_code == status


def test_a_key_of_an_erased_prediction_is_replayed_without_its_text(site):
    client, _, _ = site
    chat = {"model": "writer", "messages": [{"role": "user", "content": "hello"}]}
    said = []
    for at in range(3):  # of which one is answered
        headers = {"Idempotency-Key": f"key-{at}"}
        told = client.post("/v1/chat/completions", json=chat, headers=headers)
        said.append((headers, told.headers["x-demur-id"], told.headers["x-demur-action"]))
    for headers, record_id, action in said:
        assert client.delete(f"/v1/predictions/{record_id}/payload").status_code == 200
        again = client.post("/v1/chat/completions", json=chat, headers=headers)
        if action == "answer":
            assert again.status_code == 400
            assert "no longer kept" in again.text
        else:
            assert again.status_code == 200
            assert again.headers["idempotent-replay"] == "true"
        assert "a reply" not in again.text
    headers = {"Idempotency-Key": "a-key"}
    asked = {"model": "words", "input": "my secret"}
    first = client.post("/v1/predict", json=asked, headers=headers).json()
    client.delete(f"/v1/predictions/{first['id']}/payload")
    assert client.post("/v1/predict", json=asked, headers=headers).json() == first


def test_an_answer_that_can_still_be_taken_back_counts(site):
    client, _, database = site
    one = entry(model="words", input="my secret")
    with database.transaction() as connection:
        log.append(connection, [one])
        queue.enqueue(connection, [new_case(one)])
    path = f"/review/v1/cases/{one.record.id}"
    token = client.post(f"{path}/claim").json()["token"]
    assert client.post(f"{path}/answer", json={"token": token, "label": "7"}).status_code == 200
    client.delete(f"/v1/predictions/{one.record.id}/payload")
    assert client.get(path).json()["status"] == "answered"


def test_a_corrected_reply_goes_with_the_reply(site):
    client, known, database = site
    record_id = known.records[-1]  # of a writer, held
    text = f"Dear {NAME}, no."
    token = client.post(f"/review/v1/cases/{record_id}/claim").json()["token"]
    said = {"token": token, "label": "wrong", "text": text}
    assert client.post(f"/review/v1/cases/{record_id}/answer", json=said).status_code == 200
    told = {"label": "wrong", "source": "lab", "text": f"Dear {NAME}, yes."}
    posted = client.post(f"/v1/predictions/{record_id}/outcome", json=told, headers={"Idempotency-Key": "k"})
    assert posted.json()["text"] == f"Dear {NAME}, yes."
    view = client.get(f"/v1/predictions/{record_id}").json()
    assert f"Dear {NAME}, yes." in [one["text"] for one in view["outcomes"]]
    assert {"corrected_replies", "review_corrections"} <= tables_with(database, NAME)
    assert client.delete(f"/v1/predictions/{record_id}/payload").status_code == 200
    assert tables_with(database, NAME) == set()
    again = client.post(f"/v1/predictions/{record_id}/outcome", json=told, headers={"Idempotency-Key": "k"})
    assert (again.headers["idempotent-replay"], again.json()["text"]) == ("true", None)
    late = client.post(f"/v1/predictions/{record_id}/outcome", json=told)
    assert late.status_code == 422
    assert "no longer kept" in late.json()["error"]["message"]
