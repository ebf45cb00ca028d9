"""What the live view tells of the last minutes."""

import jsonschema
import pytest

from demur.serve.web.front import live


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.0)


def test_the_numbers_are_those_of_the_log(client, clear_digit, doubtful_digit):
    for value in (clear_digit, clear_digit, doubtful_digit):
        client.post("/v1/predict", json={"model": "digits", "input": value})
    seen = client.get("/v1/live").json()
    document = client.get("/openapi.json").json()
    schema = document["paths"]["/v1/live"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(seen)
    digits = seen["models"]["digits"]
    assert (digits["n"], digits["held_share"]) == (3, pytest.approx(1 / 3))
    assert sum(bin["answered"] for bin in digits["confidence"]) == 2
    assert sum(bin["held"] for bin in digits["confidence"]) == 1
    assert digits["per_second"] == pytest.approx(0.3)
    assert [one["action"] for one in seen["decisions"]] == ["review", "answer", "answer"]
    assert "input" not in seen["decisions"][0]
    assert seen["open_cases"] == 1


def test_decisions_are_chosen_by_model_and_action(client, clear_digit, doubtful_digit):
    for value in (clear_digit, doubtful_digit):
        client.post("/v1/predict", json={"model": "digits", "input": value})
    assert [one["action"] for one in client.get("/v1/live?action=review").json()["decisions"]] == ["review"]
    assert client.get("/v1/live?model=nobody").json()["decisions"] == []
    assert client.get("/v1/live?action=dance").status_code == 422
    assert client.get("/v1/live?colour=red").status_code == 422


def test_nothing_was_decided_yet(client):
    seen = client.get("/v1/live").json()
    assert seen["models"]["digits"]["held_share"] is None
    assert seen["decisions"] == []


def test_many_who_watch_cost_one_look(client, monkeypatch, clear_digit):
    monkeypatch.setattr(live, "LOOK_SECONDS", 60.0)
    client.get("/v1/live")
    client.post("/v1/predict", json={"model": "digits", "input": clear_digit})
    assert client.get("/v1/live").json()["decisions"] == []


def test_a_look_reads_no_more_than_its_bound(client, monkeypatch, clear_digit):
    monkeypatch.setattr(live, "MOST", 2)
    for _ in range(3):
        client.post("/v1/predict", json={"model": "digits", "input": clear_digit})
    digits = client.get("/v1/live").json()["models"]["digits"]
    assert digits["n"] == 2
    assert digits["per_second"] > 0
