"""The body of an inference over HTTP, as the OpenAPI document shows it: what is taken and what is given."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from demur.serve.contract import wire
from demur.serve.contract.inference_protocol.tensors import (
    Tensor,
    bytes_of,
    json_of,
    tensor_from_bytes,
    tensor_from_json,
)
from demur.serve.contract.inputs import InvalidRequest

JSON_LENGTH_HEADER = "Inference-Header-Content-Length"
"""How long the JSON is at the head of a body; behind it is the data of tensors, as bytes."""

MOST_PARAMETERS = 100
"""Of a request or of one of its tensors."""


def _few(value: Any) -> Any:
    if isinstance(value, dict) and len(value) > MOST_PARAMETERS:
        raise ValueError(f"there are {len(value):,} parameters; at most {MOST_PARAMETERS} are taken")
    return value


Scalar = bool | int | float | str
Parameters = Annotated[dict[str, Scalar], BeforeValidator(_few)]


class RequestInput(wire.Body):
    """A tensor that goes in."""

    name: str
    datatype: str = Field(
        description="`BOOL`, `UINT8` to `UINT64`, `INT8` to `INT64`, `FP16`, `FP32`, `FP64` or `BYTES`; which of them a"
        " model takes hangs on its input."
    )
    shape: wire.Listed[int]
    parameters: Parameters | None = Field(
        default=None, description="`binary_data_size`: so many bytes behind the JSON are its data."
    )
    data: Any = Field(
        default=None, description="Flat, or nested as the shape is; left out where it is behind the JSON."
    )


class RequestOutput(wire.Body):
    """A tensor that is to come out."""

    name: str
    parameters: Parameters | None = Field(default=None, description="`binary_data`: whether its data comes as bytes.")


class InferRequest(wire.Body):
    """Rows for one model. Each of them is a prediction of its own."""

    id: str | None = Field(default=None, description="Comes back with the response.")
    model_name: str | None = Field(default=None, description="If it is told, the one of the address.")
    parameters: Parameters | None = Field(
        default=None,
        description="For all rows: `group`, `cluster`, `review_priority` and `review_due_seconds` as at /v1/predict;"
        " `idempotency_key` in the place of the header; `binary_data_output`: whether data comes as bytes.",
    )
    inputs: wire.Listed[RequestInput]
    outputs: wire.Listed[RequestOutput] | None = Field(
        default=None, description="By default all of the model's metadata."
    )


class ResponseOutput(BaseModel):
    """A tensor that came out."""

    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, Scalar] | None = None
    data: list[Any] | None = Field(default=None, description="Flat. Null stands for a number that is undefined.")


class InferResponse(BaseModel):
    """What was decided about each row. All of it is on record."""

    model_name: str
    model_version: str | None = Field(
        default=None, description="The artifact that decided, if it was one for all rows."
    )
    id: str | None = None
    parameters: dict[str, Scalar] = Field(
        description="Of one row its `id`, `action`, `abstained`, `confidence` (if it is known) and `reason`; of several"
        " `ids`, `actions` and `confidences`, each a JSON list in a text, since parameters are scalars."
    )
    outputs: list[ResponseOutput]


@dataclass(frozen=True, kw_only=True)
class RequestedOutput:
    """An output that is asked for."""

    name: str
    binary: bool


def read_body(body: bytes, json_length: str | None) -> tuple[InferRequest, list[Tensor]]:
    """Return the request and its tensors. Raises `MalformedBody` or `InvalidRequest`."""
    end = _json_end(body, json_length)
    request = wire.parse(InferRequest, body[:end] if end < len(body) else body)
    left = memoryview(body)[end:]
    tensors = []
    for at, asked in enumerate(request.inputs):
        place = f"inputs.{at}"
        size = _binary_size(asked, place)
        if size is None:
            tensors.append(tensor_from_json(asked.name, asked.datatype, asked.shape, asked.data, place=place))
            continue
        if size > len(left):
            raise InvalidRequest(f"{place}.parameters.binary_data_size: only {len(left):,} bytes are left in the body")
        tensors.append(tensor_from_bytes(asked.name, asked.datatype, asked.shape, left[:size], place=place))
        left = left[size:]
    if left:
        raise InvalidRequest(
            f"{len(left):,} bytes of the body belong to no input; check {JSON_LENGTH_HEADER} and each binary_data_size"
        )
    return request, tensors


def wanted_of(request: InferRequest, known: list[str]) -> list[RequestedOutput]:
    """Return what is to come out, by default everything that is known."""
    every = _flag(request.parameters, "binary_data_output", "parameters")
    if not request.outputs:
        return [RequestedOutput(name=name, binary=every) for name in known]
    wanted = []
    for at, output in enumerate(request.outputs):
        place = f"outputs.{at}.parameters"
        given = output.parameters or {}
        for name in ("classification", "shared_memory_region"):
            if name in given:
                raise InvalidRequest(f"{place}.{name}: this extension is not offered; see GET /v2")
        binary = _flag(given, "binary_data", place) if "binary_data" in given else every
        wanted.append(RequestedOutput(name=output.name, binary=binary))
    return wanted


def written(head: dict[str, Any], tensors: list[Tensor], binary: list[bool]) -> tuple[bytes, int | None]:
    """Return the body of a response, and the length of the JSON at its head where data follows it."""
    outputs, behind = [], []
    for tensor, as_bytes in zip(tensors, binary, strict=True):
        told: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
        if as_bytes:
            raw = bytes_of(tensor)
            behind.append(raw)
            told["parameters"] = {"binary_data_size": len(raw)}
        else:
            told["data"] = json_of(tensor)
        outputs.append(told)
    content = wire.dump({**head, "outputs": outputs})
    return (b"".join((content, *behind)), len(content)) if behind else (content, None)


def _json_end(body: bytes, json_length: str | None) -> int:
    if json_length is None:
        return len(body)
    if not (json_length.isascii() and json_length.isdigit() and len(json_length) < 20):
        raise InvalidRequest(f"{JSON_LENGTH_HEADER}: a number of bytes is wanted")
    if int(json_length) > len(body):
        raise InvalidRequest(f"{JSON_LENGTH_HEADER}: the body has no more than {len(body):,} bytes")
    return int(json_length)


def _binary_size(asked: RequestInput, place: str) -> int | None:
    """How many bytes behind the JSON are this tensor's; None where its data is in the JSON."""
    given = asked.parameters or {}
    if "shared_memory_region" in given:
        raise InvalidRequest(f"{place}.parameters.shared_memory_region: this extension is not offered; see GET /v2")
    size = given.get("binary_data_size")
    if size is None:
        if asked.data is None:
            raise InvalidRequest(f"{place}.data: the data is missing")
        return None
    if asked.data is not None:
        raise InvalidRequest(f"{place}: give `data` or `binary_data_size`, and not both")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise InvalidRequest(f"{place}.parameters.binary_data_size: a number of bytes is wanted")
    return size


def _flag(given: Parameters | None, name: str, place: str) -> bool:
    value = (given or {}).get(name, False)
    if not isinstance(value, bool):
        raise InvalidRequest(f"{place}.{name}: true or false is wanted")
    return value
