"""Tensors that bring what a model said that runs elsewhere, as one request for each row."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from demur.library.nearest import one_of
from demur.serve.config.hosts.given import GivenHost
from demur.serve.contract import wire
from demur.serve.contract.inference_protocol.tensors import Tensor
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.inference_protocol.body import Scalar
from demur.serve.web.inference_protocol.elements import json_in, text_in
from demur.serve.web.inference_protocol.rows import INPUT, first_of

OUTPUT = "output"
"""A tensor of JSON objects, each with everything that the model said about a row."""

OF_NUMBERS = {"probabilities": [-1, -1], "logits": [-1, -1], "embedding": [-1, -1], "passes": [-1, -1, -1]}
"""Parts that are tensors of numbers, and their shapes."""

OF_TEXTS = ("prediction", "reply")


def given_requests(
    model: str, tensors: Sequence[Tensor], parameters: Mapping[str, Scalar], host: GivenHost
) -> list[wire.PredictRequest]:
    """Return one request for each row. Raises `InvalidRequest`."""
    known = [one["name"] for one in given_inputs(host)]
    for at, tensor in enumerate(tensors):
        if tensor.name not in known:
            raise InvalidRequest(f"inputs.{at}.name: {one_of(tensor.name, known)}")
        if tensor.name in (before.name for before in tensors[:at]):
            raise InvalidRequest(f"inputs.{at}.name: {tensor.name!r} comes twice; send one tensor for each part")
        if tensor.shape[0] != tensors[0].shape[0]:
            raise InvalidRequest(
                f"inputs.{at}.shape: it has {tensor.shape[0]:,} rows, and {tensors[0].name!r} has"
                f" {tensors[0].shape[0]:,}"
            )
    if not tensors:
        raise InvalidRequest(f"inputs: this model takes tensors of what was predicted elsewhere: {', '.join(known)}")
    columns = {tensor.name: _rows(tensor, f"inputs.{at}") for at, tensor in enumerate(tensors)}
    inputs = columns.pop(INPUT, None)
    outputs = [_output(columns, row, host) for row in range(tensors[0].shape[0])]
    first = first_of(model, inputs[0] if inputs else None, parameters)
    changes = ({"output": output, "input": inputs[row] if inputs else None} for row, output in enumerate(outputs))
    return [first.model_copy(update=change) for change in changes]


def given_inputs(host: GivenHost) -> list[dict[str, Any]]:
    """Return the tensors that may come, as metadata tells them."""
    tensors: list[dict[str, Any]] = []
    for part in host.gives:
        if part in OF_NUMBERS:
            tensors.append({"name": part, "datatype": "FP64", "shape": OF_NUMBERS[part]})
        elif part in OF_TEXTS:
            tensors.append({"name": part, "datatype": "BYTES", "shape": [-1]})
    tensors += [{"name": name, "datatype": "FP64", "shape": [-1]} for name in host.scores]
    return [
        *tensors,
        {"name": OUTPUT, "datatype": "BYTES", "shape": [-1]},
        {"name": INPUT, "datatype": "BYTES", "shape": [-1]},
    ]


def _output(columns: Mapping[str, Sequence[Any]], row: int, host: GivenHost) -> Any:
    whole = columns.get(OUTPUT)
    parts = {name: values[row] for name, values in columns.items() if name != OUTPUT}
    if whole is not None:
        if parts:
            raise InvalidRequest(f"inputs: `{OUTPUT}` brings all parts; leave out {', '.join(parts)}")
        return whole[row]
    scores = {name: parts.pop(name) for name in host.scores if name in parts}
    return {**parts, **({"scores": scores} if scores else {})}


def _rows(tensor: Tensor, place: str) -> list[Any]:
    """The value of each row: numbers, nested as they came, a text, or JSON."""
    if not isinstance(tensor.values, list):
        if tensor.name in (OUTPUT, INPUT, *OF_TEXTS):
            raise InvalidRequest(f"{place}.datatype: {tensor.name!r} is BYTES")
        return list(tensor.values.tolist())
    if len(tensor.values) != tensor.shape[0]:
        raise InvalidRequest(f"{place}.shape: of BYTES, one element is one row")
    read: Callable[[bytes, str], Any] = json_in if tensor.name == OUTPUT else text_in
    if tensor.name not in (OUTPUT, INPUT, *OF_TEXTS):
        raise InvalidRequest(f"{place}.datatype: {tensor.name!r} is FP32 or FP64")
    values = [read(element, f"{place}: row {at}") for at, element in enumerate(tensor.values)]
    return [_labels(value) if tensor.name == "prediction" else value for value in values]


def _labels(text: str) -> Any:
    """A label, or the list of labels that a text of JSON is."""
    if not text.startswith("["):
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
