"""Predictions that were made elsewhere, from a file to a fit, a request, a case, an outcome and a fit from traffic."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import yaml
from starlette.testclient import TestClient

from demur.calibration_store.store import ArtifactStore
from demur.review import cases
from demur.serve.commands.shadow_report import report_shadow
from demur.serve.config.file import Config
from demur.serve.fitting.fit import fit_model, fit_on_traffic
from demur.serve.web.native.app import gateway_app
from demur.traffic.outcomes import LATEST
from demur.uncertainty.correctness import QUALITIES
from tests.serve.conftest import LocalHost, make_handler
from tests.serve.given_models import section, vendor_rows
from tests.serve.hosting import RunningHost


def clock():
    return datetime(2026, 11, 24, tzinfo=UTC)


def config_of(folder, **more):
    return Config.model_validate({"data": str(folder), "models": {"vendor": section(**more)}})


def reporter(folder, database, demur, policy):
    """Return what runs `demur artifacts shadow vendor --report` on a configuration with this policy."""
    content = {"data": str(folder), "database": database.dsn, "models": {"vendor": section(policy=policy)}}
    (folder / "demur.yaml").write_text(yaml.safe_dump(content))
    command = ("artifacts", "shadow", "vendor", "--report", "--config", folder / "demur.yaml")
    return lambda *more: demur(*command, *more)


def fitted(config, folder):
    """Fit on a file of the vendor's rows, and promote."""
    probabilities, labels = vendor_rows()
    rows = [
        {"probabilities": p.tolist(), "label": label, "input": f"ticket {at}"}
        for at, (p, label) in enumerate(zip(probabilities, labels, strict=True))
    ]
    parquet.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    done = fit_model(config, "vendor", folder / "rows.parquet", clock=clock, progress=lambda *_: None)
    ArtifactStore(config.artifacts).promote("vendor", done.name, by="tests", why="a test", clock=clock)
    return done


def client_of(config, database):
    host = RunningHost("vendor", config.models["vendor"], ArtifactStore(config.artifacts))
    handler = make_handler(config, {"vendor": LocalHost(host)}, database)
    return TestClient(gateway_app(handler, max_body_bytes=config.limits.body_bytes), raise_server_exceptions=False)


@pytest.fixture
def served(tmp_path, database):
    config = config_of(tmp_path)
    fitted(config, tmp_path)
    with client_of(config, database) as client:
        yield config, client


SURE, UNSURE = [0.98, 0.01, 0.01], [0.34, 0.33, 0.33]


def ask(client, p, **more):
    return client.post("/v1/predict", json={"model": "vendor", "output": {"probabilities": p}, **more})


def test_a_sure_prediction_is_answered_and_an_unsure_one_held(served, database):
    _, client = served
    answered, held = ask(client, SURE).json(), ask(client, UNSURE, input="a ticket").json()
    assert (answered["action"], answered["prediction"]) == ("answer", "billing")
    assert held["action"] == "review"
    assert answered["confidence"] > held["confidence"]
    with database.transaction() as connection:
        kept = connection.execute("select input, output from payloads order by record_id").fetchall()
        assert kept == [({"input": None}, {"probabilities": SURE}), ("a ticket", {"probabilities": UNSURE})]
        assert cases.case(connection, held["id"]).status == "waiting"


def test_a_batch_is_decided_like_single_requests(served):
    _, client = served
    items = [{"model": "vendor", "output": {"probabilities": p}} for p in (SURE, UNSURE, [1, 1, 1])]
    results = client.post("/v1/predict/batch", json={"items": items}).json()["results"]
    assert [one["status"] for one in results] == [200, 200, 422]
    assert [one["prediction"]["action"] for one in results[:2]] == ["answer", "review"]
    assert "output.probabilities: they come to 3" in results[2]["error"]["message"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"model": "vendor", "input": "a ticket"}, "output: this model's predictions are made elsewhere"),
        ({"model": "vendor", "output": {"probabilities": [1, 0]}}, "2 numbers came, and there are 3 labels"),
        ({"model": "vendor", "output": {}}, "output.probabilities: it is missing"),
    ],
)
def test_a_request_without_its_output_is_told_so(served, body, why):
    _, client = served
    refused = client.post("/v1/predict", json=body)
    assert refused.status_code == 422
    assert why in refused.json()["error"]["message"]


def test_a_model_that_is_asked_here_takes_no_output(client, clear_digit):
    refused = client.post(
        "/v1/predict", json={"model": "digits", "input": clear_digit, "output": {"probabilities": []}}
    )
    assert refused.status_code == 422
    assert "leave `output` out" in refused.json()["error"]["message"]
    refused = client.post("/v1/predict", json={"model": "digits"})
    assert (refused.status_code, refused.json()["error"]["message"]) == (422, "input: this key is missing")


def infer(client, *tensors):
    inputs = [{"name": name, "datatype": kind, "shape": shape, "data": data} for name, kind, shape, data in tensors]
    return client.post("/v2/models/vendor/infer", json={"inputs": inputs})


def test_the_inference_protocol_takes_tensors_of_what_was_predicted(served):
    _, client = served
    metadata = client.get("/v2/models/vendor").json()
    assert [one["name"] for one in metadata["inputs"]] == ["probabilities", "output", "input"]
    done = infer(
        client, ("probabilities", "FP64", [2, 3], [SURE, UNSURE]), ("input", "BYTES", [2], ["a", "b"])
    ).json()  # fmt: skip
    outputs = {one["name"]: one["data"] for one in done["outputs"]}
    assert outputs["action"] == ["answer", "review"]
    done = infer(client, ("output", "BYTES", [1], [f'{{"probabilities": {SURE}}}'])).json()
    assert done["outputs"][0]["data"] == ["billing"]


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        ([("probabilites", "FP64", [1, 3], SURE)], "inputs.0.name: 'probabilites' is not one of: probabilities"),
        ([("probabilities", "FP64", [1, 3], SURE), ("input", "BYTES", [2], ["a", "b"])], "inputs.1.shape: it has 2"),
        (
            [("probabilities", "FP64", [1, 3], one) for one in (SURE, UNSURE)],
            "inputs.1.name: 'probabilities' comes twice",
        ),
        ([("probabilities", "FP64", [1, 2], [0.5, 0.5])], "2 numbers came, and there are 3 labels"),
        ([("probabilities", "BYTES", [1], ["a"])], "inputs.0.datatype: 'probabilities' is FP32 or FP64"),
        ([("output", "BYTES", [1], ["{"])], "is not JSON"),
        ([("output", "BYTES", [1], ["{}"]), ("probabilities", "FP64", [1, 3], SURE)], "leave out probabilities"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(served, tensors, why):
    _, client = served
    refused = infer(client, *tensors)
    assert refused.status_code == 400
    assert why in refused.json()["error"]


def test_another_output_under_the_same_key_is_another_request(served):
    _, client = served
    body = {"model": "vendor", "output": {"probabilities": SURE}}
    first = client.post("/v1/predict", json=body, headers={"Idempotency-Key": "a"})
    assert client.post("/v1/predict", json=body, headers={"Idempotency-Key": "a"}).json() == first.json()
    other = {"model": "vendor", "output": {"probabilities": UNSURE}}
    assert client.post("/v1/predict", json=other, headers={"Idempotency-Key": "a"}).status_code == 409


def test_traffic_with_outcomes_is_fitted_on_again(served, database):
    config, client = served
    probabilities, labels = vendor_rows(200, seed=5)
    for p, label in zip(probabilities.tolist(), labels, strict=True):
        asked = ask(client, p).json()
        client.post(f"/v1/predictions/{asked['id']}/outcome", json={"label": label})
    done = fit_on_traffic(
        config, "vendor", database, since=None, until=None, every_outcome_known=True, clock=clock,
        progress=lambda *_: None,
    )  # fmt: skip
    assert done.fit.n_fitted + done.fit.n_reported == 200


def test_a_policy_that_only_observes_answers_all_and_keeps_what_it_would_have_done(tmp_path, database):
    rule = {"kind": "rejection_rate", "rate": 0.2}
    config = config_of(tmp_path, policy={"kind": "observe", "rule": rule})
    done = fitted(config, tmp_path)
    assert not any("answers" in promise.statement for _, promise in done.fit.promises)
    with client_of(config, database) as client:
        sure, unsure = ask(client, SURE).json(), ask(client, UNSURE).json()
        assert (sure["action"], unsure["action"]) == ("answer", "answer")
        assert unsure["reason"].startswith("only observed; the policy would hold it for review: confidence 0.")
        for asked, label in ((sure, "billing"), (unsure, "other")):
            client.post(f"/v1/predictions/{asked['id']}/outcome", json={"label": label})
    report = report_shadow(
        database, "vendor", done.name, right=config.models["vendor"].right, precedence=LATEST, since=None, until=None
    )
    assert (report.found.n, report.found.people_told, report.found.people_shadow) == (2, 0, 1)
    assert "exact" in QUALITIES


def test_the_report_of_a_shadow_shows_what_a_policy_that_only_observes_would_do(tmp_path, database, demur):
    policy = {"kind": "observe", "rule": {"kind": "rejection_rate", "rate": 0.2}}
    config = config_of(tmp_path, policy=policy)
    report = reporter(tmp_path, database, demur, policy)
    assert report() == (
        "demur: model 'vendor' only observes and has no artifact in force; fit one and put it in force"
        " (`demur fit vendor --promote`)"
    )
    done = fitted(config, tmp_path)
    assert report() == (
        f"demur: no decision of the observed policy of {done.name!r} is recorded for model 'vendor' in this range;"
        " widen it, or send traffic"
    )
    with client_of(config, database) as client:
        for p, label in ((SURE, "billing"), (UNSURE, "other"), (UNSURE, "billing")):
            asked = ask(client, p).json()
            assert asked["action"] == "answer"
            client.post(f"/v1/predictions/{asked['id']}/outcome", json={"label": label})
    printed = report("--json", tmp_path / "numbers.json")
    for words in (
        "on 3 records of vendor, 3 of them with a label that counts",
        f"A: what callers were told, by {done.name} (3)",
        "B: what its policy would have decided",
        "Cases for people: 0 so far, 2 by the shadow (+2)",
    ):
        assert words in " ".join(printed.split())
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert (numbers["artifact"], numbers["told_by"]) == (done.name, {done.name: 3})
    assert [(flip["a"], flip["b"]) for flip in numbers["flips"]] == [("answer", "review")] * 2
    decides = reporter(tmp_path, database, demur, policy["rule"])  # later, with the rule in its place
    assert decides().startswith("demur: model 'vendor' has no shadow now; name the artifact")
    assert "B: what its policy would have decided" in decides(done.name)


def test_an_artifact_of_another_version_decides_nothing(tmp_path, database):
    config = config_of(tmp_path)
    fitted(config, tmp_path)
    newer = config_of(tmp_path, host={"kind": "given", "gives": ["probabilities"], "version": "2"})
    with client_of(newer, database) as client:
        refused = ask(client, SURE)
        assert refused.status_code == 503
        assert "was fitted for another" in refused.json()["error"]["message"]
