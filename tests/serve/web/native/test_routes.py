"""The gateway's HTTP without Ray: statuses, and a document that tells the truth about them."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.review.queue import NotYours
from demur.serve.gateway.handler import Handler
from demur.serve.web.errors import STATUS
from demur.serve.web.shared.visitor import NoReviewer


@pytest.fixture
def document(client):
    return client.get("/openapi.json").json()


def conforms(document, response, method, path):
    """Check a response against the schema that the document gives for its path and status."""
    described = document["paths"][path][method]["responses"][str(response.status_code)]
    schema = described["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(response.json())
    return response.json()


def test_the_whole_loop_as_the_document_describes_it(client, document, clear_digit, doubtful_digit):
    answered = client.post("/v1/predict", json={"model": "digits", "input": clear_digit})
    assert conforms(document, answered, "post", "/v1/predict")["abstained"] is False
    held = client.post("/v1/predict", json={"model": "digits", "input": doubtful_digit, "group": "g"})
    held = conforms(document, held, "post", "/v1/predict")
    assert held["abstained"] is True
    assert held["review"] == {"status": "waiting", "url": f"/v1/predictions/{held['id']}"}
    view = conforms(document, client.get(held["review"]["url"]), "get", "/v1/predictions/{id}")
    assert view["review"] == {**held["review"], "ahead": 0, "expected_seconds": None}
    assert {key: view[key] for key in held if key != "review"} == {k: v for k, v in held.items() if k != "review"}
    told = client.post(f"/v1/predictions/{held['id']}/outcome", json={"label": "3"})
    assert told.status_code == 201
    conforms(document, told, "post", "/v1/predictions/{id}/outcome")
    view = conforms(document, client.get(held["review"]["url"]), "get", "/v1/predictions/{id}")
    assert view["outcome"]["label"] == "3"
    conforms(document, client.get("/healthz"), "get", "/healthz")


def test_a_batch_as_the_document_describes_it(client, document, clear_digit):
    items = [{"model": "digits", "input": clear_digit}, {"model": "digits", "input": []}]
    response = client.post("/v1/predict/batch", json={"items": items})
    first, second = conforms(document, response, "post", "/v1/predict/batch")["results"]
    assert (first["status"], second["status"]) == (200, 422)
    assert first["error"] is None
    assert second["prediction"] is None


def test_a_batch_of_outcomes_as_the_document_describes_it(client, document, clear_digit):
    predicted = client.post("/v1/predict", json={"model": "digits", "input": clear_digit}).json()
    items = [{"id": predicted["id"], "label": "3"}, {"id": predicted["id"], "label": "eleven"}]
    response = client.post("/v1/outcomes/batch", json={"items": items})
    first, second = conforms(document, response, "post", "/v1/outcomes/batch")["results"]
    assert (first["status"], second["status"]) == (201, 422)
    schema = {"$ref": "#/components/schemas/OutcomesRequest", "components": document["components"]}
    described = jsonschema.Draft202012Validator(schema)
    assert described.is_valid({"items": items})
    assert not described.is_valid({"items": [{"label": "3"}]})
    assert not described.is_valid({"items": []})


def test_the_request_schemas_describe_what_is_taken(document, clear_digit):
    schemas = document["components"]
    good = {"model": "digits", "input": clear_digit, "group": "g"}
    validator = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/PredictRequest", "components": schemas})
    assert validator.is_valid(good)
    for bad in ({**good, "colour": 1}, {"model": "digits"}, {**good, "group": ""}, {**good, "model": 7}):
        assert not validator.is_valid(bad)
    batch = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/BatchRequest", "components": schemas})
    assert batch.is_valid({"items": [good]})
    assert not batch.is_valid({"items": []})
    assert not batch.is_valid({"items": [{"model": "digits"}]})


def test_every_status_that_can_be_sent_is_in_the_document(document):
    described = {
        int(status)
        for path in document["paths"].values()
        for operation in path.values()
        for status in operation["responses"]
    }
    of_the_console = (NotYours, NoReviewer)
    assert {status for error, status in STATUS.items() if error not in of_the_console} <= described


def test_replays_say_that_they_are(client, clear_digit):
    headers = {"Idempotency-Key": "a-key"}
    first = client.post("/v1/predict", json={"model": "digits", "input": clear_digit}, headers=headers)
    again = client.post("/v1/predict", json={"model": "digits", "input": clear_digit}, headers=headers)
    assert again.content == first.content
    assert "Idempotent-Replay" not in first.headers
    assert again.headers["Idempotent-Replay"] == "true"


def test_the_docs_page_needs_nobody_else(client):
    page = client.get("/docs").text
    assert "https://" not in page
    script = page.split('<script src="')[1].split('"')[0]
    assert client.get(script).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("get", "/nowhere", 404),
        ("delete", "/v1/predict", 405),
        ("get", "/v1/predictions/01a1fc62-8cc6-75fc-8ec8-67f7c8edc89a", 404),
    ],
)
def test_wrong_addresses_are_told_like_every_other_problem(client, method, path, status):
    response = client.request(method, path)
    assert response.status_code == status
    assert set(response.json()["error"]) == {"kind", "message"}


def test_what_nobody_foresaw_is_a_500_without_its_inside(client, monkeypatch, clear_digit):
    async def boom(*_args):
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr(Handler, "predict", boom)
    response = client.post("/v1/predict", json={"model": "digits", "input": clear_digit})
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.json()["error"]["kind"] == "InternalError"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
nearly_right = st.fixed_dictionaries(
    {"model": st.just("digits") | anything, "input": anything}, optional={"group": anything, "colour": anything}
)


@given(nearly_right | anything, st.none() | st.text(alphabet="ab ", max_size=3))
def test_no_body_and_no_key_is_ever_a_500(client, body, key):
    headers = {} if key is None else {"Idempotency-Key": key}
    for path, content in (("/v1/predict", body), ("/v1/predict/batch", {"items": [body]})):
        response = client.post(path, content=json.dumps(content), headers=headers)
        assert response.status_code < 500, response.text
        assert all(result["status"] < 500 for result in response.json().get("results", []))


def test_the_first_page_says_where_the_others_are(client, document):
    told = client.get("/").json()
    assert told.pop("service") == "demur"
    assert told == {
        "docs": "/docs", "openapi": "/openapi.json", "health": "/healthz", "review": "/review/", "audit": "/audit/"
    }  # fmt: skip
    assert [client.get(told[name]).status_code for name in ("docs", "openapi", "health")] == [200] * 3
    assert "/" not in document["paths"]


def test_a_browser_is_shown_the_front_page(client):
    page = client.get("/", headers={"Accept": "text/html,application/xhtml+xml"}, follow_redirects=False)
    assert page.status_code == 200
    assert "<h1>Everything serves</h1>" in page.text
