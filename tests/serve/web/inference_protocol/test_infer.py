"""The door of the Open Inference Protocol: a real gateway with the digits, and a host for texts that a test writes."""

import asyncio
import json
import struct
import tracemalloc
from uuid import UUID

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from demur.serve.access.needs import GATEWAY
from demur.serve.config.access import Scope
from demur.serve.contract.inference_protocol.tensors import tensor_from_bytes, tensor_from_json
from demur.serve.contract.inputs import InvalidRequest, TableRow, TooLarge
from demur.serve.web.inference_protocol.body import JSON_LENGTH_HEADER
from demur.serve.web.login.access_middleware import AccessMiddleware
from demur.serve.web.native.app import gateway_app
from demur.traffic import log
from tests.serve.access.doors import bearer, keeper_of, make


def rows(data, shape=None, datatype="BYTES", **more):
    tensor = {"name": "input", "shape": shape or [len(data)], "datatype": datatype, "data": data}
    return {"inputs": [tensor], **more}


def infer(client, model, content, **more):
    return client.post(f"/v2/models/{model}/infer", json=content, **more)


def data_of(response):
    assert response.status_code == 200, response.text
    return {output["name"]: output["data"] for output in response.json()["outputs"]}


def binary(content, *raw):
    """A body and its headers, with data behind the JSON."""
    head = json.dumps(content).encode()
    return {"content": head + b"".join(raw), "headers": {JSON_LENGTH_HEADER: str(len(head))}}


def elements(*texts):
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def eight_bits(image):
    """An image as whole numbers, flat."""
    return np.rint(np.ravel(image) * 255).astype(int).tolist()


def inputs_on_record(database):
    with database.transaction() as connection:
        found = connection.execute("select input from payloads order by record_id").fetchall()
    return [row[0] for row in found]


def records(database):
    with database.transaction() as connection:
        return connection.execute("select count(*) from records").fetchone()[0]


def test_a_digit_is_told_as_at_the_native_door(client, clear_digit, doubtful_digit, database):
    content = rows([clear_digit, doubtful_digit], [2, 8, 8], "FP32")
    content["parameters"] = {"group": "g", "cluster": "c", "review_priority": 3}
    response = infer(client, "digits", content)
    data = data_of(response)
    assert (data["action"], data["abstained"]) == (["answer", "review"], [False, True])
    for at, record_id in enumerate(data["id"]):
        native = client.get(f"/v1/predictions/{record_id}").json()
        for name in ("prediction", "confidence", "action", "reason", "artifact", "abstained"):
            assert data[name][at] == native[name], name
        assert json.loads(data["prediction_set"][at]) == native["prediction_set"]
        assert {name: data[f"score.{name}"][at] for name in native["scores"]} == native["scores"]
        assert native["group"] == "g"
    told = response.json()
    assert told["model_version"] == data["artifact"][0]
    assert json.loads(told["parameters"]["ids"]) == data["id"]
    assert json.loads(told["parameters"]["actions"]) == data["action"]
    assert json.loads(told["parameters"]["confidences"]) == data["confidence"]
    with database.transaction() as connection:
        record = log.find_one(connection, UUID(data["id"][1]))
        assert record.cluster == "c"
        assert connection.execute("select priority from review_items").fetchall() == [(3,)]


def test_the_metadata_list_what_comes_out(client, clear_digit):
    metadata = client.get("/v2/models/digits").json()
    assert metadata["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 8, 8]}]
    response = infer(client, "digits", rows([clear_digit], [1, 8, 8], "FP32"))
    outputs = response.json()["outputs"]
    assert [(one["name"], one["datatype"], [-1, *one["shape"][1:]]) for one in outputs] == [
        (one["name"], one["datatype"], one["shape"]) for one in metadata["outputs"]
    ]
    told = response.json()["parameters"]
    assert set(told) == {"id", "action", "abstained", "confidence", "reason"}
    assert metadata["versions"] == [response.json()["model_version"]]


FORMS = {
    "FP64, nested": lambda image: {"json": rows([image], [1, 8, 8], "FP64")},
    "FP32, flat": lambda image: {"json": rows(np.ravel(image).tolist(), [1, 8, 8], "FP32")},
    "FP32, with its channel": lambda image: {"json": rows([[image]], [1, 1, 8, 8], "FP32")},
    "FP32, as bytes": lambda image: binary(
        {"inputs": [{"name": "input", "shape": [1, 8, 8], "datatype": "FP32",
                     "parameters": {"binary_data_size": 256}}]},
        np.array(image, "<f4").tobytes(),
    ),
    "UINT8, as bytes": lambda image: binary(
        {"inputs": [{"name": "input", "shape": [1, 8, 8], "datatype": "UINT8",
                     "parameters": {"binary_data_size": 64}}]},
        np.rint(np.array(image) * 255).astype("u1").tobytes(),
    ),
    "UINT8, flat": lambda image: {"json": rows(eight_bits(image), [1, 8, 8], "UINT8")},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_an_image_is_the_same_prediction(client, clear_digit, form):
    native = client.post("/v1/predict", json={"model": "digits", "input": clear_digit}).json()
    data = data_of(client.post("/v2/models/digits/infer", **FORMS[form](clear_digit)))
    assert data["prediction"] == [native["prediction"]]
    close = 0.01 if "UINT8" in form else 1e-5  # eight bits say less than these digits' four do exactly
    assert data["confidence"] == pytest.approx([native["confidence"]], abs=close)
    stored = client.get(f"/v1/predictions/{data['id'][0]}")
    assert stored.status_code == 200


def test_the_input_is_kept_as_the_native_door_takes_it(client, clear_digit, database):
    for content in (rows([clear_digit], [1, 8, 8], "FP32"), rows(eight_bits(clear_digit), [1, 8, 8], "UINT8")):
        data = data_of(infer(client, "digits", content))
        again = client.post("/v1/predict", json={"model": "digits", "input": inputs_on_record(database)[-1]})
        assert again.json()["confidence"] == data["confidence"][0]


def test_colours_come_first_and_are_kept_last(texts, hosts, database):
    image = np.arange(48, dtype=np.float64).reshape(2, 3, 2, 4) / 64
    data_of(infer(texts, "photos", rows(image.tolist(), [2, 3, 2, 4], "FP64")))
    ((asked, _),) = hosts["photos"].asked
    np.testing.assert_array_equal(np.stack(asked), image.astype(np.float32))
    assert inputs_on_record(database) == np.moveaxis(image, 1, -1).tolist()
    small = np.arange(24).reshape(1, 3, 2, 4)
    data_of(infer(texts, "photos", rows(small.tolist(), [1, 3, 2, 4], "UINT8")))
    np.testing.assert_array_equal(hosts["photos"].asked[1][0][0], small[0])


def test_a_picture_can_come_as_the_native_door_takes_it(client, clear_digit, database):
    first = data_of(infer(client, "digits", rows(eight_bits(clear_digit), [1, 8, 8], "UINT8")))
    url = inputs_on_record(database)[0]
    assert data_of(infer(client, "digits", rows([url])))["confidence"] == first["confidence"]


def test_texts_in_and_out_as_bytes(texts, hosts):
    tensor = {"name": "input", "shape": [2, 1], "datatype": "BYTES"}
    raw = elements("grün".encode(), b"a doubt")
    tensor["parameters"] = {"binary_data_size": len(raw)}
    asked = {"id": "my id", "inputs": [tensor], "parameters": {"binary_data_output": True}}
    asked["outputs"] = [
        {"name": "confidence"},
        {"name": "abstained"},
        {"name": "action", "parameters": {"binary_data": False}},
        {"name": "top_labels"},
    ]
    response = texts.post("/v2/models/colours/infer", **binary(asked, raw))
    assert response.headers["content-type"] == "application/octet-stream"
    length = int(response.headers[JSON_LENGTH_HEADER])
    told = json.loads(response.content[:length])
    assert (told["id"], told["model_name"], told["model_version"]) == ("my id", "colours", "colours-1")
    assert [output["name"] for output in told["outputs"]] == ["confidence", "abstained", "action", "top_labels"]
    assert told["outputs"][2]["data"] == ["answer", "review"]
    assert told["outputs"][3]["shape"] == [2, 3]
    labels = elements(b"red", b"blue", b"") * 2
    assert response.content[length:] == struct.pack("<dd??", 0.875, 0.25, False, True) + labels
    sizes = [output.get("parameters") for output in told["outputs"]]
    assert sizes == [{"binary_data_size": 16}, {"binary_data_size": 2}, None, {"binary_data_size": len(labels)}]
    assert hosts["colours"].asked[0][0] == ["grün", "a doubt"]


def test_what_is_undefined_is_nan_or_null_or_empty(texts):
    data = data_of(infer(texts, "colours", rows(["unknown"])))
    assert (data["prediction"], data["confidence"], data["score.avg_neg_logprob"]) == ([""], [None], [None])
    assert data["top_probabilities"] == [0.75, 0.25, None]
    asked = rows(["unknown"], outputs=[{"name": "confidence", "parameters": {"binary_data": True}}])
    response = infer(texts, "colours", asked)
    told = json.loads(response.content[: int(response.headers[JSON_LENGTH_HEADER])])
    assert np.isnan(np.frombuffer(response.content[-8:], "<f8")).all()
    assert "confidence" not in told["parameters"]


def test_rows_of_a_table_are_json_or_numbers(texts, hosts, database):
    data_of(infer(texts, "people", rows(['{"job": "nurse", "age": 41}', '[null, "clerk"]'])))
    assert hosts["people"].asked[0][0] == [TableRow((41.0, "nurse")), TableRow((None, "clerk"))]
    tensor = {"name": "input", "shape": [2, 2], "datatype": "FP64", "parameters": {"binary_data_size": 32}}
    raw = struct.pack("<4d", 20.5, 1, float("nan"), 0)
    data_of(texts.post("/v2/models/lamps/infer", **binary({"inputs": [tensor]}, raw)))
    assert hosts["lamps"].asked[0][0] == [TableRow((20.5, 1.0)), TableRow((None, 0.0))]
    assert inputs_on_record(database) == [
        {"age": 41, "job": "nurse"},
        {"age": None, "job": "clerk"},
        {"heat": 20.5, "on": True},
        {"heat": None, "on": False},
    ]
    metadata = texts.get("/v2/models/lamps").json()["inputs"]
    assert metadata == [{"name": "input", "datatype": "FP64", "shape": [-1, 2]}]


@pytest.mark.parametrize(
    ("model", "content", "why"),
    [
        ("people", rows([1.0, 2.0], [1, 2], "FP64"), "numbers come in a tensor for each column"),
        ("lamps", rows([1.0, 2.0], [2], "FP64"), "it is [2]; this model takes [-1, 2]"),
        ("lamps", rows([1.0, 2.0, 1.0], [1, 3], "FP64"), "it is [1, 3]; this model takes [-1, 2]"),
        ("lamps", rows([1.0, 2.0], [1, 2], "FP64"), "input.on: true or false is wanted here, not a number"),
        ("lamps", rows([1e39, 1.0], [1, 2], "FP32"), "input.heat: a finite number is wanted here"),
        ("lamps", rows(["[1]"]), "the array has 1 values, and this model takes 2"),
    ],
)
def test_rows_that_do_not_fit_are_refused(texts, model, content, why, database):
    refused = infer(texts, model, content)
    assert refused.status_code == 400
    assert why in refused.json()["error"]
    assert inputs_on_record(database) == []


def test_choices_and_conversations_are_json(texts, hosts):
    question = {"question": "Which?", "options": ["this", "that"]}
    data_of(infer(texts, "letters", rows([json.dumps(question)])))
    assert hosts["letters"].asked[0][0][0].options == ("this", "that")
    conversation = {"messages": [{"role": "user", "content": "Hello"}]}
    data = data_of(infer(texts, "talker", rows([json.dumps(conversation), '"Hello"'])))
    first, second = hosts["talker"].asked[0][0]
    assert first == second
    assert "top_labels" not in data
    assert "prediction_set" not in data


def test_a_key_makes_retries_safe(texts, database):
    headers = {"Idempotency-Key": "once"}
    first = infer(texts, "colours", rows(["one", "two"]), headers=headers)
    raw = elements(b"one", b"two")
    tensor = {"name": "input", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": len(raw)}}
    again = texts.post(
        "/v2/models/colours/infer",
        **binary({"inputs": [tensor], "parameters": {"idempotency_key": "once"}}, raw),
    )
    assert data_of(again) == data_of(first)
    assert "Idempotent-Replay" not in first.headers
    assert again.headers["Idempotent-Replay"] == "true"
    assert records(database) == 2
    other = infer(texts, "colours", rows(["one", "three"]), headers=headers)
    assert other.status_code == 409
    both = infer(texts, "colours", rows(["one"], parameters={"idempotency_key": "twice"}), headers=headers)
    assert both.status_code == 400


def test_all_rows_or_none(texts, hosts, database):
    refused = infer(texts, "colours", rows(["one", " ", "three"]))
    assert (refused.status_code, refused.json()) == (400, {"error": "row 1: input: the text is empty"})
    assert hosts["colours"].asked == []
    assert records(database) == 0


def tensor(**changes):
    return {"inputs": [{"name": "input", "shape": [1], "datatype": "BYTES", "data": ["a"], **changes}]}


REFUSED = {
    "not JSON": (b"{", 400, "the body is not JSON"),
    "no input": ({"inputs": []}, 400, "takes one tensor, 'input', and this is nothing"),
    "another name": (tensor(name="text"), 400, "takes one tensor, 'input', and this is 'text'"),
    "an unknown key": (tensor(colour=1), 400, "colour: this key is not known"),
    "an unknown parameter": (rows(["a"], parameters={"gruop": "a"}), 400, "parameters.gruop: this parameter is not"),
    "a parameter that is a list": (rows(["a"], parameters={"group": ["a"]}), 400, "parameters.group"),
    "a group with a control character": (rows(["a"], parameters={"group": "a\n"}), 400, "parameters.group: control"),
    "a wish beyond the scale": (rows(["a"], parameters={"review_priority": 99}), 400, "parameters.review_priority: "),
    "an unknown datatype": (tensor(datatype="INT4"), 400, "inputs.0.datatype: 'INT4' is not taken; there are: BOOL"),
    "a datatype that the model does not take": (tensor(datatype="FP32", data=[1]), 400, "is BYTES here, not FP32"),
    "a negative dimension": (tensor(shape=[-1]), 400, "inputs.0.shape: the size of each dimension"),
    "no dimension": (tensor(shape=[]), 400, "inputs.0.shape: a tensor has 1 to 8 dimensions"),
    "a huge shape": (tensor(shape=[2, 2**62]), 400, "inputs.0.data: there are 1 elements; the shape says"),
    "a shape of very many rows": (tensor(shape=[1025]), 413, "has 1,025 rows; at most 1,024 are taken"),
    "a size beyond 64 bits": (tensor(shape=[2**70]), 400, "inputs.0.shape"),
    "too few elements": (tensor(shape=[2]), 400, "inputs.0.data: there are 1 elements; the shape says 2"),
    "elements that are no texts": (tensor(data=[1]), 400, "of BYTES, the elements are texts"),
    "missing data": (tensor(data=None), 400, "inputs.0.data: the data is missing"),
    "both kinds of data": (tensor(parameters={"binary_data_size": 5}), 400, "give `data` or `binary_data_size`"),
    "bytes that are not there": (tensor(data=None, parameters={"binary_data_size": 5}), 400, "only 0 bytes are left"),
    "a negative number of bytes": (tensor(data=None, parameters={"binary_data_size": -5}), 400, "a number of bytes"),
    "shared memory": (tensor(data=None, parameters={"shared_memory_region": "a"}), 400, "extension is not offered"),
    "two columns of texts": (rows(["a", "b"], [1, 2]), 400, "one element is one row"),
    "an unknown output": (rows(["a"], outputs=[{"name": "b"}]), 400, "outputs.0.name: 'colours' has no output 'b'; it"),
    "an output twice": (rows(["a"], outputs=[{"name": "id"}] * 2), 400, "outputs.1.name: 'id' is asked for twice"),
    "classes in the place of numbers": (
        rows(["a"], outputs=[{"name": "id", "parameters": {"classification": 1}}]), 400, "extension is not offered"
    ),
    "too many rows": (rows(["a"] * 6), 413, "the request has 6 rows; at most 5 are taken"),
    "another model in the body": (rows(["a"], model_name="b"), 400, "the address says 'colours', and this 'b'"),
    "a body that is too large": (rows(["a" * 200_000]), 413, "the body has more than 100,000 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(texts, what, database):
    content, status, message = REFUSED[what]
    content = content if isinstance(content, bytes) else json.dumps(content)
    response = texts.post("/v2/models/colours/infer", content=content)
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    assert message in response.json()["error"]
    assert records(database) == 0


IMAGES = {
    "a long text among very many numbers": (
        rows([0.5] * 100_000 + ["x" * 500_000], [1, 100_001], "FP32"),
        "there are elements that are no FP32",
    ),
    "the shape of another model": (rows([[[0.5] * 7] * 8], [1, 8, 7], "FP32"), "it is [1, 8, 7]; this model takes"),
    "pixels that are not scaled": (rows([16] * 64, [1, 8, 8], "FP32"), "scale them first"),
    "a pixel beyond eight bits": (rows([256] * 64, [1, 8, 8], "UINT8"), "from 0 to 255"),
    "a pixel that is no whole number": (rows([0.5] * 64, [1, 8, 8], "UINT8"), "there are elements that are no UINT8"),
    "pixels that are texts": (rows(["a"] * 64, [1, 8, 8], "FP32"), "there are elements that are no FP32"),
    "a number beyond FP32": (rows([1e300] * 64, [1, 8, 8], "FP32"), "a pixel is NaN or infinite"),
    "null": (rows([None] * 64, [1, 8, 8], "FP32"), "a pixel is NaN or infinite"),
    "rows that differ in length": (rows([[[0.5] * 8] * 7 + [[0.5]]], [1, 8, 8], "FP32"), "lists differ in length"),
    "a whole number": (rows([1] * 64, [1, 8, 8], "INT32"), "'input' is FP32, FP64, UINT8 or BYTES here, not INT32"),
    "a text that is no picture": (rows(["seven"]), "must be a URL that starts with"),
}


@pytest.mark.parametrize("what", IMAGES)
def test_what_is_refused_of_images(client, what, database):
    content, message = IMAGES[what]
    response = infer(client, "digits", content)
    assert response.status_code == 400, response.text
    assert message in response.json()["error"]
    assert records(database) == 0


LENGTHS = {
    "no number": ("abc", b"", "a number of bytes is wanted"),
    "negative": ("-1", b"", "a number of bytes is wanted"),
    "beyond the body": ("99999", b"", "the body has no more than"),
    "bytes left over": (None, b"more", "4 bytes of the body belong to no input"),
}


@pytest.mark.parametrize("what", LENGTHS)
def test_lengths_that_do_not_fit(texts, what):
    length, behind, message = LENGTHS[what]
    sent = binary(rows(["a"]), behind)
    if length is not None:
        sent["headers"][JSON_LENGTH_HEADER] = length
    response = texts.post("/v2/models/colours/infer", **sent)
    assert response.status_code == 400
    assert message in response.json()["error"]


def test_compressed_bodies_are_refused(texts):
    response = infer(texts, "colours", rows(["a"]), headers={"Content-Encoding": "gzip"})
    assert response.status_code == 400
    assert "compressed bodies are not taken" in response.json()["error"]


def test_versions_are_artifacts(texts, hosts):
    assert texts.get("/v2/models/colours/versions/colours-1").json()["versions"] == ["colours-1"]
    assert texts.get("/v2/models/colours/versions/1").status_code == 404
    assert texts.get("/v2/models/colours/versions/1/ready").status_code == 404
    assert texts.get("/v2/models/colours/versions/colours-1/ready").json() == {"name": "colours", "ready": True}
    assert texts.post("/v2/models/colours/versions/colours-1/infer", json=rows(["a"])).status_code == 200
    refused = texts.post("/v2/models/colours/versions/1/infer", json=rows(["a"]))
    assert (refused.status_code, refused.json()) == (
        404, {"error": "version: '1' of model 'colours' is not in force; in force: colours-1"}
    )  # fmt: skip
    hosts["colours"].canary = "colours-2"
    assert texts.get("/v2/models/colours").json()["versions"] == ["colours-1", "colours-2"]
    drawn = texts.post("/v2/models/colours/versions/colours-1/infer", json=rows(["a"]))
    assert drawn.status_code == 400
    assert "drawn by chance" in drawn.json()["error"]


def test_health(texts, hosts, client):
    assert texts.get("/v2").json()["extensions"] == ["binary_tensor_data"]
    assert texts.get("/v2/health/live").json() == {"live": True}
    assert texts.get("/v2/health/ready").json() == {"ready": True}
    assert texts.get("/v2/models").json() == {"models": ["colours", "letters", "talker", "photos", "people", "lamps"]}
    assert texts.get("/v2/models/photos").json()["inputs"][0]["shape"] == [-1, 3, 2, 4]
    hosts["colours"].artifact = None
    assert texts.get("/v2/health/ready").status_code == 503
    unready = texts.get("/v2/models/colours/ready")
    assert (unready.status_code, unready.json()) == (503, {"name": "colours", "ready": False})
    assert texts.get("/v2/models/letters/ready").status_code == 200


def test_a_keeper_stands_at_the_door(text_handler, database, hosts):
    stranger = TestClient(
        AccessMiddleware(gateway_app(text_handler, max_body_bytes=100_000), keeper_of(database), GATEWAY)
    )
    assert stranger.get("/v2/health/live").status_code == 200
    refused = infer(stranger, "colours", rows(["a"]))
    assert refused.status_code == 401
    assert isinstance(refused.json()["error"], str)
    key = bearer(make(database, Scope.PREDICT, models=("letters",)))
    assert stranger.get("/v2/models", headers=key).json() == {"models": ["letters"]}
    for path in ("", "/ready", "/versions/colours-1", "/versions/colours-1/ready"):
        assert stranger.get(f"/v2/models/colours{path}", headers=key).status_code == 403
    assert infer(stranger, "colours", rows(["a"]), headers=key).status_code == 403
    assert hosts["colours"].asked == []
    question = json.dumps({"question": "Which?", "options": ["this", "that"]})
    assert infer(stranger, "letters", rows([question]), headers=key).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "/v2/models/nobody"),
        ("get", "/v2/models/nobody/ready"),
        ("post", "/v2/models/nobody/infer"),
        ("get", "/v2/models/colours/infer"),
        ("get", "/v2/nowhere"),
    ],
)
def test_what_is_not_there(texts, method, path):
    response = texts.request(method, path, **({"json": rows(["a"])} if method == "post" else {}))
    assert response.status_code == (405 if (method, path[-6:]) == ("get", "/infer") else 404)
    assert isinstance(response.json()["error"], str)


def test_responses_are_as_the_document_describes_them(texts):
    document = texts.get("/openapi.json").json()
    components = document["components"]

    def conforms(response, method, path):
        schema = document["paths"][path][method]["responses"][str(response.status_code)]["content"]["application/json"]
        jsonschema.Draft202012Validator({**schema["schema"], "components": components}).validate(response.json())

    where = "/v2/models/{model}/infer"
    conforms(infer(texts, "colours", rows(["a", "unknown"])), "post", where)
    conforms(infer(texts, "colours", rows([" "])), "post", where)
    for path in ("/v2", "/v2/models", "/v2/health/ready", "/v2/health/live"):
        conforms(texts.get(path), "get", path)
    conforms(texts.get("/v2/models/colours"), "get", "/v2/models/{model}")
    asked = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/InferRequest", "components": components})
    assert asked.is_valid(rows(["a"], parameters={"group": "g"}))
    assert not asked.is_valid(rows(["a"], colour="red"))


sizes = st.integers(-1, 3) | st.sampled_from([8, 2**31, 2**63, 2**64])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
tensors = st.fixed_dictionaries(
    {
        "name": st.just("input") | st.text(max_size=3),
        "shape": st.lists(sizes, max_size=4) | st.just([1, 8, 8]) | anything,
        "datatype": st.sampled_from(["FP32", "FP64", "UINT8", "BOOL", "BYTES", "INT8"]) | anything,
    },
    optional={
        "data": anything | st.lists(st.floats(0, 1), min_size=64, max_size=64),
        "parameters": st.fixed_dictionaries({}, optional={"binary_data_size": sizes, "shared_memory_region": anything}),
        "colour": anything,
    },
)
bodies = st.fixed_dictionaries(
    {"inputs": st.lists(tensors, min_size=1, max_size=2) | anything},
    optional={"id": anything, "parameters": anything, "outputs": anything},
)


@given(bodies | anything, st.binary(max_size=80) | st.just(bytes(256)), st.integers(-2, 2))
def test_no_body_is_ever_a_500(client, body, behind, shift):
    head = json.dumps(body).encode()
    headers = {JSON_LENGTH_HEADER: str(len(head) + shift)} if behind else {}
    for model in ("digits", "nobody"):
        response = client.post(f"/v2/models/{model}/infer", content=head + behind, headers=headers)
        assert response.status_code in (200, 400, 404, 413), response.text


def test_a_deadline_that_has_passed(texts, hosts):
    async def never(*_):
        await asyncio.sleep(60)

    hosts["colours"].decide = never
    late = infer(texts, "colours", rows(["a"]), headers={"X-Request-Timeout": "0.05"})
    assert late.status_code == 504
    assert "X-Request-Timeout are over" in late.json()["error"]
    assert infer(texts, "colours", rows(["a"]), headers={"X-Request-Timeout": "soon"}).status_code == 400


def test_outputs_are_checked_before_anything_is_decided(texts, hosts):
    infer(texts, "colours", rows(["a"], outputs=[{"name": "nothing"}]))
    assert hosts["colours"].asked == []


def test_texts_among_numbers_take_no_room():
    """Of these, an array of texts would take 800 MB, and of a body of 16 MB more than a machine has."""
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="there are elements that are no FP32"):
            tensor_from_json("input", "FP32", [1, 20_001], ["x" * 10_000, *["a"] * 20_000], place="inputs.0")
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_elements_are_counted_before_they_are_read():
    with pytest.raises(TooLarge, match="at most 1,000,000 are taken at once"):
        tensor_from_bytes("input", "BYTES", [1, 2**40], memoryview(bytes(4_000_000)), place="inputs.0")


def test_rows_are_counted_before_each_becomes_a_request(client):
    said = infer(client, "digits", rows(["a"] * 5000))
    assert (said.status_code, said.json()["error"]) == (413, "the request has 5,000 rows; at most 1,024 are taken")
