"""The page of the API: made from the document, with examples that work."""

import html
import json
import re

import pytest

from demur.serve.web.shared.reference import example_of, fields_of, groups_of, kind_of

SCHEMAS = {
    "Node": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string", "maxLength": 5}, "next": {"$ref": "#/components/schemas/Node"}},
    }
}
NODE = {"$ref": "#/components/schemas/Node"}


@pytest.fixture
def page(client):
    return client.get("/docs").text


def test_each_operation_of_the_document_stands_there_once(client, page):
    document = client.get("/openapi.json").json()
    named = [f"{method.upper()}{path}" for path, methods in document["paths"].items() for method in methods]
    shown = re.findall(r'data-method="(\w+)" data-path="([^"]+)"', page)
    assert sorted(f"{method}{path}" for method, path in shown) == sorted(named)
    assert "Others" not in re.findall(r'<h2 class="group"[^>]*>([^<]+)', page)


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/predict/batch"])
def test_the_example_of_a_prediction_works_at_once(client, page, path):
    operation = re.search(rf'data-method="POST" data-path="{path}".*?</article>', page, re.S)[0]
    body = html.unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", operation, re.S)[1])
    assert client.post(path, json=json.loads(body)).status_code == 200


def test_a_schema_that_holds_itself_ends(client):
    assert [one.name for one in fields_of(NODE, SCHEMAS)][:3] == ["name", "next", "next.name"]
    assert example_of(NODE, SCHEMAS) == {"name": "text"}
    assert kind_of({"anyOf": [NODE, {"type": "null"}]}, SCHEMAS) == "object or null"
    assert kind_of(SCHEMAS["Node"]["properties"]["name"], SCHEMAS) == "text, at most 5 characters"


def test_markup_in_a_document_is_text():
    told = {"summary": "<script>", "responses": {}, "tags": ["a"]}
    (group,) = groups_of({"paths": {"/x": {"get": told}}}, {})
    assert group.operations[0].summary == "<script>"


def test_no_file_but_the_page_s_own_is_served(client):
    assert client.get("/docs/docs.js").status_code == 200
    assert client.get("/docs/docs.py").status_code == 404
    assert client.get("/docs/..%2fdocs.py").status_code == 404
