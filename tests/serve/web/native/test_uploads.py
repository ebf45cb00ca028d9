"""Files in a form at /v1/predict, with a real model: predicted as from JSON, and refused with their place."""

import io

import jsonschema
import numpy as np
import pytest
from PIL import Image

from demur.serve.contract.pictures.formats import format_of, url_of
from demur.traffic import log
from tests.serve.forms import FORM, form, part


def file_of(digit, name, **settings):
    """A digit as a program stores it, large enough that what JPEG changes does not matter."""
    image = Image.fromarray((np.array(digit) * 255).round().astype(np.uint8))
    buffer = io.BytesIO()
    (image if name == "PNG" else image.resize((64, 64), Image.Resampling.NEAREST)).save(buffer, name, **settings)
    return buffer.getvalue()


def send(client, *parts, path="/v1/predict", **headers):
    return client.post(path, content=form(*parts), headers={"Content-Type": FORM, **headers})


MODEL = part("model", "digits")


def inputs_of(database, *ids):
    with database.transaction() as connection:
        return [log.find_input(connection, id) for id in ids]


@pytest.mark.parametrize("name", ["PNG", "JPEG", "WEBP"])
def test_a_file_is_predicted_as_its_url_is(client, database, clear_digit, name):
    file = file_of(clear_digit, name, **({} if name == "PNG" else {"quality": 95}))
    url = url_of(file, format_of(file))
    sent = send(client, MODEL, part("file", file, filename="../seven.exe"), part("group", "night"))
    asked = client.post("/v1/predict", json={"model": "digits", "input": url, "group": "night"})
    assert sent.status_code == asked.status_code == 200, sent.text
    first, second = sent.json(), asked.json()
    ids = first.pop("id"), second.pop("id")
    assert first | {"review": None} == second | {"review": None}
    assert first["group"] == "night"
    assert inputs_of(database, *ids) == [url, url]


def test_of_a_digit_as_the_model_knows_it_the_file_is_answered(client, clear_digit):
    told = send(client, MODEL, part("file", file_of(clear_digit, "PNG"))).json()
    assert (told["action"], told["prediction"]) == ("answer", "4")


def test_several_files_are_a_batch(client, document, clear_digit, doubtful_digit):
    files = [part("file", file_of(one, "PNG")) for one in (clear_digit, doubtful_digit)]
    told = send(client, MODEL, *files, part("request", '{"review": {"priority": 2}}'), path="/v1/predict/batch")
    results = told.json()["results"]
    assert [one["prediction"]["action"] for one in results] == ["answer", "review"]
    described = document["paths"]["/v1/predict/batch"]["post"]["responses"]["200"]["content"]["application/json"]
    schema = {**described["schema"], "components": document["components"]}
    jsonschema.Draft202012Validator(schema).validate(told.json())


def test_one_that_is_no_picture_is_an_item_of_its_own(client, clear_digit):
    """A file that its model could take and that is broken fails alone."""
    good = file_of(clear_digit, "PNG")
    told = send(client, MODEL, part("file", good), part("file", good[:-20]), path="/v1/predict/batch")
    first, second = told.json()["results"]
    assert (first["status"], second["status"]) == (200, 422)
    assert second["error"]["message"] == "input: the image is not a PNG that can be read: it is cut short"


def test_a_retry_may_come_in_the_other_form(client, clear_digit):
    """A form is what it would be in JSON, so that a key of one is a key of the other."""
    file = file_of(clear_digit, "PNG")
    key = {"Idempotency-Key": "k"}
    first = send(client, MODEL, part("file", file), part("cluster", "c"), **key)
    body = {"model": "digits", "input": url_of(file, format_of(file)), "cluster": "c"}
    second = client.post("/v1/predict", json=body, headers=key)
    third = send(client, part("request", '{"cluster": "c", "model": "digits"}'), part("file", file), **key)
    assert first.json() == second.json() == third.json()
    assert second.headers["idempotent-replay"] == third.headers["idempotent-replay"] == "true"
    assert send(client, MODEL, part("file", file), **key).status_code == 409
    items = {"items": [{key: value for key, value in body.items() if key != "cluster"}]}
    batch = client.post("/v1/predict/batch", json=items, headers={"Idempotency-Key": "b"})
    again = send(client, MODEL, part("file", file), path="/v1/predict/batch", **{"Idempotency-Key": "b"})
    assert again.json()["results"][0]["replayed"]
    assert again.json()["results"][0]["prediction"] == batch.json()["results"][0]["prediction"]


def test_at_a_time_limit_and_with_a_query_it_is_the_same_door(client, clear_digit):
    file = part("file", file_of(clear_digit, "PNG"))
    assert send(client, MODEL, file, **{"X-Request-Timeout": "0.000001"}).status_code == 504
    assert send(client, MODEL, file, path="/v1/predict?a=b").status_code == 422


def test_nothing_of_a_files_name_is_stored(client, database, clear_digit):
    told = send(client, MODEL, part("file", file_of(clear_digit, "PNG"), filename="Maria.png"))
    assert told.status_code == 200
    (value,) = inputs_of(database, told.json()["id"])
    assert "Maria" not in value
    assert "Maria" not in client.get(f"/v1/predictions/{told.json()['id']}").text


@pytest.fixture
def document(client):
    return client.get("/openapi.json").json()


def test_the_document_describes_both_bodies(document):
    for path, kind in (("/v1/predict", "string"), ("/v1/predict/batch", "array")):
        content = document["paths"][path]["post"]["requestBody"]["content"]
        assert set(content) == {"application/json", "multipart/form-data"}
        schema = content["multipart/form-data"]["schema"]
        assert set(schema["properties"]) == {"file", "model", "group", "cluster", "request"}
        assert schema["properties"]["file"]["type"] == kind
