"""Triton's official clients against the real thing: Ray Serve, the digits, PostgreSQL."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
import yaml
from tritonclient.utils import InferenceServerException

from tests.conftest import digit_rows
from tests.system.conftest import Service

pytestmark = pytest.mark.slow

ROWS = 200


@pytest.fixture(scope="module")
def images(digits: Path) -> np.ndarray:
    return np.array([row["input"] for row in digit_rows(digits)[:ROWS]], dtype=np.float32)


@pytest.fixture
def calls(service: Service) -> Iterator[over_grpc.InferenceServerClient]:
    port = yaml.safe_load((service.folder / "demur.yaml").read_text())["http"]["grpc_port"]
    with over_grpc.InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield client


@pytest.fixture
def client(service: Service) -> Iterator[over_http.InferenceServerClient]:
    with over_http.InferenceServerClient(f"127.0.0.1:{service.port}") as client:
        yield client


def tensor(kind: Any, array: np.ndarray, datatype: str, **more: Any) -> Any:
    made = kind.InferInput("input", list(array.shape), datatype)
    made.set_data_from_numpy(array, **more)
    return made


def texts(result: Any, name: str) -> list[str]:
    elements = result.as_numpy(name).ravel().tolist()
    return [element.decode() if isinstance(element, bytes) else element for element in elements]  # of JSON, texts


def check_against_records(http: httpx.Client, result: Any) -> None:
    """Whatever the tensors say is on record, and native clients are told the same."""
    for at, record_id in enumerate(texts(result, "id")):
        view = http.get(f"/v1/predictions/{record_id}").json()
        for name in ("prediction", "action", "reason", "artifact"):
            assert texts(result, name)[at] == view[name], name
        assert result.as_numpy("confidence")[at] == view["confidence"]
        assert result.as_numpy("abstained")[at] == view["abstained"]
        for name, score in view["scores"].items():
            assert result.as_numpy(f"score.{name}")[at] == score


def test_health_and_metadata(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("digits")
    assert not client.is_model_ready("nobody")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    metadata = client.get_model_metadata("digits")
    assert metadata["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 8, 8]}]
    assert client.is_model_ready("digits", metadata["versions"][0])


def test_bytes_in_and_out(client, http, images):
    result = client.infer("digits", [tensor(over_http, images, "FP32")], request_id="mine")  # bytes are its default
    told = result.get_response()
    assert told["id"] == "mine"
    metadata = client.get_model_metadata("digits")
    assert [output["name"] for output in told["outputs"]] == [output["name"] for output in metadata["outputs"]]
    assert all("binary_data_size" in output["parameters"] for output in told["outputs"])
    assert set(texts(result, "action")) == {"answer", "review"}
    assert result.as_numpy("top_probabilities").shape == (ROWS, 5)
    check_against_records(http, result)


def test_json_in_and_out(client, http, images):
    wanted = ["prediction", "confidence", "action", "abstained", "reason", "id", "artifact"]
    scores = [one["name"] for one in client.get_model_metadata("digits")["outputs"] if one["name"].startswith("score.")]
    result = client.infer(
        "digits",
        [tensor(over_http, images[:3], "FP32", binary_data=False)],
        outputs=[over_http.InferRequestedOutput(name, binary_data=False) for name in wanted + scores],
        parameters={"group": "ward 3"},
    )
    told = result.get_response()
    assert json.loads(told["parameters"]["ids"]) == texts(result, "id")
    assert http.get(f"/v1/predictions/{texts(result, 'id')[0]}").json()["group"] == "ward 3"
    check_against_records(http, result)


def test_a_retry_writes_nothing(client, images):
    asked = [tensor(over_http, images[:2], "FP32")]
    first, again = (client.infer("digits", asked, headers={"Idempotency-Key": "a-try"}) for _ in range(2))
    assert texts(first, "id") == texts(again, "id")


def test_what_is_wrong_is_said(client, images):
    with pytest.raises(InferenceServerException, match="this model takes \\[-1, 8, 8\\]"):
        client.infer("digits", [tensor(over_http, images[:, :7], "FP32")])
    with pytest.raises(InferenceServerException, match="there is no model 'nobody'"):
        client.infer("nobody", [tensor(over_http, images, "FP32")])
    with pytest.raises(InferenceServerException, match="this parameter is not known"):
        client.infer("digits", [tensor(over_http, images, "FP32")], priority=3)
    with pytest.raises(InferenceServerException, match="compressed bodies are not taken"):
        client.infer("digits", [tensor(over_http, images, "FP32")], request_compression_algorithm="gzip")


def test_grpc_says_the_same(client, calls, http, images):
    assert calls.is_server_ready()
    assert calls.is_model_ready("digits")
    metadata = client.get_model_metadata("digits")
    told = calls.get_model_metadata("digits")
    assert list(told.versions) == metadata["versions"]
    assert [output.name for output in told.outputs] == [output["name"] for output in metadata["outputs"]]
    result = calls.infer("digits", [tensor(over_grpc, images, "FP32")], model_version=metadata["versions"][0])
    over_rest = client.infer("digits", [tensor(over_http, images, "FP32")])
    for name in ("prediction", "confidence", "abstained", "top_probabilities"):
        np.testing.assert_array_equal(result.as_numpy(name), over_rest.as_numpy(name))
    check_against_records(http, result)
    with pytest.raises(InferenceServerException, match="there is no model 'nobody'"):
        calls.infer("nobody", [tensor(over_grpc, images, "FP32")])
