"""One model that cannot be served takes nobody else down, and health says which one it is, and why."""

import copy
import time

import httpx
import pytest
from starlette.testclient import TestClient

from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.gateway import inquiries
from demur.serve.gateway.left_out import LeftOut
from demur.serve.web.native.app import gateway_app
from demur.traffic.database import DatabaseUnavailable
from tests.serve.conftest import LocalHost, make_handler
from tests.serve.hosting import RunningHost

WHY = "it wants 1 GPUs (host.gpus), and this machine has 0"


def client_of(config, hosts, database):
    handler = make_handler(config, hosts, database)
    return TestClient(gateway_app(handler, max_body_bytes=config.limits.body_bytes))


def two_models(config):
    """The quickstart with a second model like the first."""
    return config.model_copy(update={"models": {"digits": config.models["digits"], "large": config.models["digits"]}})


@pytest.fixture
def degraded(quickstart, local_host, database):
    with client_of(two_models(quickstart), {"digits": local_host, "large": LeftOut(WHY)}, database) as client:
        yield client


def test_the_others_serve_and_its_requests_get_a_503_with_the_reason(degraded, clear_digit):
    assert degraded.post("/v1/predict", json={"model": "digits", "input": clear_digit}).status_code == 200
    refused = degraded.post("/v1/predict", json={"model": "large", "input": clear_digit})
    assert refused.status_code == 503
    assert refused.json()["error"] == {"kind": "ModelFailed", "message": f"model 'large' is not served: {WHY}"}
    assert "retry-after" in refused.headers


def test_in_a_batch_only_its_own_items_fail(degraded, clear_digit):
    items = [{"model": name, "input": clear_digit} for name in ("digits", "large", "digits")]
    results = degraded.post("/v1/predict/batch", json={"items": items}).json()["results"]
    assert [result["status"] for result in results] == [200, 503, 200]


def test_health_is_degraded_and_names_it(degraded):
    health = degraded.get("/healthz")
    assert health.status_code == 200
    assert health.json()["status"] == "degraded"
    assert health.json()["not_serving"] == ["large"]
    assert health.json()["models"]["large"] == {
        "status": "failed", "artifact": None, "shadow": None, "canary": None, "differs": [], "detail": WHY,
    }  # fmt: skip


@pytest.mark.parametrize("asked", ["?strict", "?strict=1", "?strict="])
def test_whoever_wants_all_or_nothing_gets_a_503(degraded, asked):
    assert degraded.get(f"/healthz{asked}").status_code == 503


def test_each_model_has_a_health_of_its_own(degraded):
    assert degraded.get("/healthz/digits").status_code == 200
    assert degraded.get("/healthz/digits").json()["status"] == "ok"
    assert degraded.get("/healthz/large").status_code == 503
    assert degraded.get("/healthz/large").json()["detail"] == WHY
    assert degraded.get("/healthz/nobody").status_code == 404


def test_without_any_model_it_is_not_ok(quickstart, database):
    with client_of(quickstart, {"digits": LeftOut(WHY)}, database) as client:
        health = client.get("/healthz")
        assert health.status_code == 503
        assert health.json()["status"] == "not ok"
        assert client.get("/healthz?strict").status_code == 503


def test_without_the_database_it_is_not_ok_whatever_models_say(quickstart, local_host, database, monkeypatch):
    def gone():
        raise DatabaseUnavailable("PostgreSQL at somewhere does not answer")

    with client_of(quickstart, {"digits": local_host}, database) as client:
        monkeypatch.setattr(database, "transaction", gone)
        health = client.get("/healthz")
        assert (health.status_code, health.json()["status"], health.json()["not_serving"]) == (503, "not ok", [])
        assert client.get("/healthz/digits").status_code == 200


@pytest.fixture
def edited(quickstart, database):
    """The quickstart with another policy in its configuration than its artifact was fitted with."""
    content = copy.deepcopy(quickstart.model_dump(mode="json"))
    content["models"]["digits"]["policy"] = {"kind": "target_risk", "max_risk": 0.0001}
    config = Config.model_validate(content)
    host = LocalHost(RunningHost("digits", config.models["digits"], ArtifactStore(config.artifacts)))
    with client_of(config, {"digits": host}, database) as client:
        yield client


def test_a_configuration_that_is_not_in_force_is_told_by_health_and_by_every_prediction(edited, clear_digit):
    (told,) = edited.get("/healthz").json()["models"]["digits"]["differs"]
    assert told.startswith("policy.max_risk is 0.0001, and ")
    answer = edited.post("/v1/predict", json={"model": "digits", "input": clear_digit}).json()
    wanted = "; fitted with other settings than are configured: policy.max_risk"
    assert answer["reason"].endswith(wanted)
    record = edited.get(f"/v1/predictions/{answer['id']}").json()
    assert record["reason"].endswith(wanted)


def test_a_configuration_that_is_in_force_adds_nothing(quickstart, local_host, database, clear_digit):
    with client_of(quickstart, {"digits": local_host}, database) as client:
        assert client.get("/healthz").json()["models"]["digits"]["differs"] == []
        answer = client.post("/v1/predict", json={"model": "digits", "input": clear_digit}).json()
        assert "other settings" not in answer["reason"]


def test_a_batch_that_is_repeated_says_which_items_are_on_record_from_before(
    quickstart, local_host, database, clear_digit
):
    items = [{"model": "digits", "input": clear_digit}, {"model": "nobody", "input": clear_digit}]
    with client_of(quickstart, {"digits": local_host}, database) as client:

        def ask() -> httpx.Response:
            return client.post("/v1/predict/batch", json={"items": items}, headers={"Idempotency-Key": "a-batch"})

        first, again = ask().json()["results"], ask().json()["results"]
        assert [result["replayed"] for result in first] == [False, False]
        assert [result["replayed"] for result in again] == [True, False]
        assert first[0]["prediction"] == again[0]["prediction"]


def test_a_database_that_hangs_is_told_in_time(quickstart, local_host, database, monkeypatch):
    monkeypatch.setattr(inquiries, "HEALTH_SECONDS", 0.2)
    with client_of(quickstart, {"digits": local_host}, database) as client:
        with database.transaction() as connection:
            connection.execute("lock table review_items in access exclusive mode")
            for _ in range(3):  # the third finds no free thread
                health = client.get("/healthz")
                assert health.status_code == 503
                assert health.json()["database"] == "unavailable"
        until = time.monotonic() + 30
        while client.get("/healthz").json()["database"] != "ok":
            assert time.monotonic() < until
