"""The input and the reply of a prediction are erased by its id, once and for all; its record stays."""

from uuid import uuid4

import psycopg
import pytest
from starlette.testclient import TestClient

from review import cases, queue
from tests.conftest import entry, new_case
from tests.fuzz.served import mounted, served
from traffic import log


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
