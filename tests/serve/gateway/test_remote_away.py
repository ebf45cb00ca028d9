"""A classifier on another server, from `fit` to the caller, and what is done while that server is away."""

import json

import numpy as np
import pytest
from fastapi.responses import JSONResponse

from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.fitting import rerun
from demur.serve.fitting.fit import fit_model
from demur.serve.fitting.rerun import NobodyReplied
from tests.serve.gateway.test_on_failure import NOTHING, clock, counts, failures, served
from tests.serve.hosts.remote.conftest import section
from tests.serve.model_server import COLUMNS, LABELS, cells, serving, trained

ROWS, CLASSES = cells()
THRESHOLD = {"policy": {"kind": "threshold", "score": "softmax_response", "limit": 0.2}}


@pytest.fixture(scope="module")
def classifier():
    return trained()


@pytest.fixture
def server(classifier):
    with serving(classifier.predict_proba) as running:
        yield running


@pytest.fixture
def spare(classifier):
    with serving(classifier.predict_proba) as running:
        yield running


def model(server, protocol="oip_rest", **more):
    return section(server.url, protocol=protocol, more={**THRESHOLD, **more})


def configured(tmp_path, **models):
    return Config.model_validate({"artifacts": str(tmp_path / "artifacts"), "models": models})


def row(at):
    return dict(zip(COLUMNS, ROWS[at].tolist(), strict=True))


def fitted(config, tmp_path):
    """The artifacts that are in force, of rows that the server's model has not seen."""
    told = [{"input": row(at), "label": LABELS[CLASSES[at]]} for at in range(1, len(ROWS), 2)]
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, told)))
    store, done = ArtifactStore(config.artifacts), {}
    for name in config.models:
        done[name] = fit_model(config, name, data, clock=clock, progress=lambda *_: None).name
        store.promote(name, done[name], by="tests", why="", clock=clock)
    return done


def away(status=503, **headers):
    return lambda body: JSONResponse({"error": "loading weights"}, status, headers) if body else None


def ask(client, at=1, **more):
    return client.post("/v1/predict", json={"model": "mine", "input": row(at)}, **more)


@pytest.mark.parametrize("protocol", ["oip_rest", "http"])
def test_a_fit_asks_the_server_and_its_artifact_decides(server, classifier, database, tmp_path, protocol):
    config = configured(tmp_path, mine=model(server, protocol))
    done = fitted(config, tmp_path)
    assert ArtifactStore(config.artifacts).load("mine", done["mine"]).manifest["data"]["n"] == len(ROWS) // 2

    async def use(client):
        return [(await ask(client, at)).json() for at in range(40)]

    told = served(config, database, use)
    probabilities = classifier.predict_proba(ROWS[:40].astype(np.float32))
    doubt = 1 - probabilities.max(1)
    clear = np.abs(doubt - 0.2) > 1e-4
    assert {one["artifact"] for one in told} == {done["mine"]}
    held = np.array([one["action"] == "review" for one in told])
    assert (held == (doubt > 0.2))[clear].all()
    assert 0 < held.sum() < 40
    said = [one["prediction"] for one in told if one["action"] == "answer"]
    assert said == [LABELS[at] for at in probabilities[~held].argmax(1)]


@pytest.mark.parametrize("protocol", ["oip_rest", "http"])
def test_a_caller_is_told_when_to_come_back_and_the_key_is_not_used_up(server, database, tmp_path, protocol):
    config = configured(tmp_path, mine=model(server, protocol))
    fitted(config, tmp_path)
    key = {"Idempotency-Key": "k1"}

    async def use(client):
        server.instead = away(**{"Retry-After": "7"})
        first = await ask(client, headers=key)
        item = {"model": "mine", "input": row(1)}
        batch = (await client.post("/v1/predict/batch", json={"items": [item] * 2})).json()["results"]
        server.instead = away(401)
        refused = await ask(client)
        health = (await client.get("/healthz")).json()["models"]["mine"]["detail"]
        server.instead = None
        return first, batch, refused, health, (await ask(client, headers=key)).json()

    first, batch, refused, health, back = served(config, database, use)
    assert (first.status_code, first.headers["retry-after"]) == (503, "7")
    assert first.json()["error"]["kind"] == "UpstreamUnavailable"
    assert [(one["status"], one["retry_after"]) for one in batch] == [(503, 7)] * 2
    assert (refused.status_code, "retry-after" in refused.headers) == (502, False)
    assert refused.json()["error"]["kind"] == "UpstreamFailed"
    for said in (first.text, refused.text):  # where the server is concerns no caller
        assert server.url not in said
        assert "loading weights" not in said
    assert server.url in health
    assert "host.headers_env" in health
    assert back["action"] == "answer"
    assert counts(database) == {**NOTHING, "records": 1, "payloads": 1, "idempotency_keys": 1, "failed_requests": 4}
    assert "loading weights" in failures(database)[0][3]


def test_what_cannot_be_asked_is_held_where_that_is_configured(server, database, tmp_path):
    config = configured(tmp_path, mine=model(server, on_failure="hold"))
    fitted(config, tmp_path)
    server.instead = away()
    told = served(config, database, ask).json()
    assert (told["action"], told["prediction"]) == ("review", None)
    assert told["reason"].startswith("the model could not be asked: ")
    assert "loading weights" in told["reason"]
    assert counts(database) == {**NOTHING, "records": 1, "payloads": 1, "review_items": 1, "failed_requests": 0}


def test_another_model_answers_by_its_own_artifact(server, spare, database, tmp_path):
    config = configured(
        tmp_path, mine=model(server, on_failure="next", fall_back_to="spare"), spare=model(spare, "http")
    )
    done = fitted(config, tmp_path)

    async def use(client):
        usual = (await ask(client)).json()
        server.instead = away()
        passed_on = (await ask(client)).json()
        spare.instead = away(**{"Retry-After": "9"})
        return usual, passed_on, await ask(client)

    usual, passed_on, neither = served(config, database, use)
    assert (usual["model"], usual["artifact"]) == ("mine", done["mine"])
    assert (passed_on["model"], passed_on["artifact"]) == ("spare", done["spare"])
    assert passed_on["prediction"] == usual["prediction"]
    assert passed_on["reason"].endswith("; asked in the place of 'mine', which was away")
    assert neither.status_code == 503


def test_what_the_server_refuses_of_one_input_is_held_and_not_a_failure(server, database, tmp_path):
    config = configured(tmp_path, mine=model(server))
    fitted(config, tmp_path)
    server.instead = away(400)
    told = served(config, database, ask)
    assert (told.status_code, told.json()["action"], told.json()["prediction"]) == (200, "review", None)
    assert counts(database)["failed_requests"] == 0


def test_a_fit_gives_up_on_a_server_that_stays_away(server, tmp_path, monkeypatch):
    monkeypatch.setattr(rerun, "PAUSES_SECONDS", (0.01, 0.01))
    server.instead = away()
    with pytest.raises(NobodyReplied, match="loading weights"):
        fitted(configured(tmp_path, mine=model(server)), tmp_path)


def test_an_artifact_is_bound_to_the_version_that_was_asked(server, database, tmp_path):
    fitted(configured(tmp_path, mine=section(server.url, version="3", more=THRESHOLD)), tmp_path)
    later = configured(tmp_path, mine=section(server.url, version="4", more=THRESHOLD))
    server.version = "4"
    told = served(later, database, ask)
    assert told.status_code == 503
