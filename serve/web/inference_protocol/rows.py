"""From the tensor that goes in to one request for each row, as every other door has it."""

import hashlib
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from demur.serve.access.caller import Caller, owner_of
from demur.serve.contract import wire
from demur.serve.contract.inference_protocol.columns import columns_of
from demur.serve.contract.inference_protocol.tensors import Tensor
from demur.serve.contract.inputs import InputSpec, InvalidRequest
from demur.serve.contract.pictures.formats import PNG, format_of, url_of
from demur.serve.gateway.idempotency import SECOND
from demur.serve.gateway.pictures import FEW_PIXELS
from demur.serve.web.inference_protocol.body import Scalar
from demur.serve.web.inference_protocol.elements import json_in, text_in
from demur.serve.web.inference_protocol.table_rows import column_rows, matrix_rows, takes_matrix
from demur.traffic.record import KeyUse

INPUT = "input"
"""The name of the one tensor that every model takes. Columns may come apart in its place."""

OF_THE_REQUEST = ("group", "cluster")
OF_THE_REVIEW = {"review_priority": "priority", "review_due_seconds": "due_seconds"}
WITHOUT_EFFECT = frozenset({"binary_data_output", "content_type", "headers"})
"""What is settled elsewhere, or what clients send along and nothing hangs on."""

TAKEN = (*OF_THE_REQUEST, *OF_THE_REVIEW, "idempotency_key", "binary_data_output")


def requests_of(
    model: str, tensors: Sequence[Tensor], parameters: Mapping[str, Scalar], spec: InputSpec
) -> list[wire.PredictRequest]:
    """Return one request for each row. The inputs of images are arrays, so that nobody has to make one again."""
    names = [tensor.name for tensor in tensors]
    if names == [INPUT]:
        values = _values(tensors[0], spec)
    elif names and columns_of(spec):
        values = column_rows(tensors, spec)
    else:
        here = ", ".join(map(repr, names[:5])) or "nothing"
        apart = ", or one for each column" if columns_of(spec) else ""
        raise InvalidRequest(f"inputs: this model takes one tensor, {INPUT!r}{apart}, and this is {here}")
    first = first_of(model, values[0], parameters)
    return [first, *(first.model_copy(update={"input": value}) for value in values[1:])]


def makes_pictures(tensors: Sequence[Tensor]) -> bool:
    """Whether `requests_of` makes PNGs of so many pixels that it takes long."""
    return any(tensor.datatype == "UINT8" and math.prod(tensor.shape) > FEW_PIXELS for tensor in tensors)


def key_use(
    key: str | None,
    caller: Caller | None,
    model: str,
    version: str,
    tensors: Sequence[Tensor],
    parameters: Mapping[str, Scalar],
) -> KeyUse | None:
    """The use of an Idempotency-Key, of the header or of the parameters, by the first row. Two requests are the same
    if their rows and their parameters are; in which of its forms a tensor was sent does not matter."""
    told = parameters.get("idempotency_key")
    if told is not None and not isinstance(told, str):
        raise InvalidRequest("parameters.idempotency_key: a text is wanted")
    if None not in (key, told) and key != told:
        raise InvalidRequest("parameters.idempotency_key: the header Idempotency-Key says another one")
    checked = wire.checked_key(told if key is None else key)
    if checked is None:
        return None
    meant = {name: value for name, value in parameters.items() if name in TAKEN[:-2]}
    digest = hashlib.sha256(json.dumps(["infer", model, version, meant], sort_keys=True).encode())
    for tensor in tensors:
        digest.update(json.dumps([tensor.name, tensor.datatype, tensor.shape]).encode())
        if isinstance(tensor.values, list):
            for element in tensor.values:
                digest.update(len(element).to_bytes(8, "little") + element)
        else:
            digest.update(np.ascontiguousarray(tensor.values).data)
    earlier = digest.digest()
    return KeyUse(
        key=checked, owner=owner_of(caller), position=0, fingerprint=SECOND + earlier, earlier=lambda: earlier
    )


def first_of(model: str, value: Any, parameters: Mapping[str, Scalar]) -> wire.PredictRequest:
    """Return the request for the first row, with what the parameters say of all of them."""
    if unknown := [name for name in parameters if name not in TAKEN and name not in WITHOUT_EFFECT]:
        raise InvalidRequest(f"parameters.{unknown[0]}: this parameter is not known; there are: {', '.join(TAKEN)}")
    review = {ours: parameters[name] for name, ours in OF_THE_REVIEW.items() if name in parameters}
    told = {name: parameters[name] for name in OF_THE_REQUEST if name in parameters}
    try:
        return wire.parse_item({"model": model, "input": value, **told, **({"review": review} if review else {})})
    except InvalidRequest as error:
        raise InvalidRequest(f"parameters.{str(error).replace('review.', 'review_', 1)}") from None


def _values(tensor: Tensor, spec: InputSpec) -> Sequence[Any]:
    """The `input` of each row, as it would be at /v1/predict."""
    if isinstance(tensor.values, list):
        if len(tensor.shape) > 1 and tensor.shape != (tensor.shape[0], 1):
            raise InvalidRequest(f"inputs.0.shape: of BYTES, one element is one row; send {len(tensor.values)} of them")
        read: Callable[[bytes, str], Any] = {"image": _picture, "text": text_in}.get(spec.kind, json_in)
        return [read(element, f"inputs.0: row {at}") for at, element in enumerate(tensor.values)]
    if takes_matrix(spec):
        return matrix_rows(tensor, spec)
    if spec.kind != "image" or tensor.datatype not in ("FP32", "FP64", "UINT8"):
        taken = "FP32, FP64, UINT8 or BYTES" if spec.kind == "image" else "BYTES"
        apart = "; numbers come in a tensor for each column" if spec.kind == "table" else ""
        raise InvalidRequest(f"inputs.0.datatype: {INPUT!r} is {taken} here, not {tensor.datatype}{apart}")
    return _images(tensor, tensor.values, spec)


def _images(tensor: Tensor, array: NDArray[Any], spec: InputSpec) -> Sequence[Any]:
    """Pixels as they are stored: channels last, in [0, 1]; 8-bit ones as PNG, which is smaller and just as exact."""
    sides = (spec.height, spec.width)
    shapes = [(spec.channels, *sides), *([sides] if spec.channels == 1 else [])]
    if tensor.shape[1:] not in shapes:
        wanted = " or ".join(str([-1, *shape]) for shape in reversed(shapes))
        raise InvalidRequest(f"inputs.0.shape: it is {list(tensor.shape)}; this model takes {wanted}")
    rows = array.reshape(-1, *sides) if spec.channels == 1 else np.ascontiguousarray(np.moveaxis(array, 1, -1))
    if tensor.datatype != "UINT8":
        return list(rows)
    if spec.channels in (1, 3):
        return [_png(row) for row in rows]
    return list(rows.astype(np.float32) / np.float32(255))


def _png(pixels: NDArray[np.uint8]) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return url_of(buffer.getvalue(), PNG)


def _picture(element: bytes, place: str) -> str:
    """The file of a picture, or a URL that holds one."""
    claimed = format_of(element)
    return text_in(element, place) if claimed is None else url_of(element, claimed)
