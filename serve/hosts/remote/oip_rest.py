"""The Open Inference Protocol over HTTP, asked."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import orjson

from demur.library.nearest import one_of
from demur.serve.config.hosts.remote import RemoteSettings
from demur.serve.contract.body import read_apart
from demur.serve.contract.inference_protocol.tensors import (
    NUMPY,
    Tensor,
    TensorBounds,
    bytes_of,
    json_of,
    tensor_from_bytes,
    tensor_from_json,
)
from demur.serve.contract.inputs import InvalidRequest, ModelInput
from demur.serve.hosts.endpoint_http import TimeLimit
from demur.serve.hosts.kind import BadModelOutput
from demur.serve.hosts.remote.input_tensors import tensors_of
from demur.serve.hosts.remote.input_values import about_bytes
from demur.serve.hosts.remote.metadata import RemoteMetadata, metadata_of
from demur.serve.hosts.remote.replies import RemoteReply, read_json, shown
from demur.serve.hosts.remote.server import HttpAnswer, RemoteHttp

JSON_LENGTH = "Inference-Header-Content-Length"
"""How long the JSON is at the head of a body with binary data."""

MOST_TENSORS = 1000
"""Of a reply."""

REPLIED = TensorBounds(datatypes=(*NUMPY, "BYTES"), most_rows=2**20, nulls=True)
"""What is taken of a server: how many rows there are is compared with how many were sent."""


class OipRest:
    """A `RemoteServer`."""

    def __init__(self, host: RemoteSettings) -> None:
        """Raises `BadModel` where a secret or a certificate is missing."""
        self._host = host
        self._http = RemoteHttp(host)
        version = f"/versions/{quote(host.version, safe='')}" if host.version else ""
        self._url = f"{host.url}/v2/models/{quote(host.model or '', safe='')}{version}"

    async def close(self) -> None:
        await self._http.close()

    async def ask(self, inputs: Sequence[ModelInput], limit: TimeLimit) -> RemoteReply:
        body, length = await read_apart(about_bytes(inputs), lambda: self._body(inputs))
        headers = {"Content-Type": "application/octet-stream", JSON_LENGTH: str(length)} if length else {}
        answer = await self._http.post(f"{self._url}/infer", body, limit, headers)
        return await read_apart(len(answer.content), lambda: self._reply(answer))

    async def metadata(self, limit: TimeLimit) -> RemoteMetadata | None:
        return metadata_of(read_json((await self._http.get(self._url, limit)).content))

    def _body(self, inputs: Sequence[ModelInput]) -> tuple[bytes, int | None]:
        """The request, and how long its JSON is where data follows it."""
        tensors = tensors_of(inputs, self._host)
        binary, behind, told = self._host.binary, [], []
        for tensor in tensors:
            one: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
            parameters = dict(self._host.tensor.parameters)
            if binary:
                behind.append(bytes_of(tensor))
                parameters["binary_data_size"] = len(behind[-1])
            else:
                one["data"] = json_of(tensor)
            told.append({**one, "parameters": parameters} if parameters else one)
        head: dict[str, Any] = {"inputs": told}
        if self._host.parameters:
            head["parameters"] = self._host.parameters
        if self._host.output is not None:
            wanted = {"parameters": {"binary_data": True}} if binary else {}
            head["outputs"] = [{"name": name, **wanted} for name in self._host.parts.values()]
        content = orjson.dumps(head)  # NaN becomes null
        return (b"".join((content, *behind)), len(content)) if binary else (content, None)

    def _reply(self, answer: HttpAnswer) -> RemoteReply:
        end = _json_end(answer)
        said = read_json(answer.content[:end] if end < len(answer.content) else answer.content)
        outputs = said.get("outputs") if isinstance(said, Mapping) else None
        if not isinstance(outputs, list) or not all(isinstance(one, Mapping) for one in outputs):
            if isinstance(said, Mapping) and said.get("error"):
                raise BadModelOutput(f"{self._host.url} replied with an error: {shown(said['error'])}")
            raise BadModelOutput(
                f"{self._host.url} replied without `outputs`, so that it is none of the Open Inference Protocol:"
                f" {shown(answer.content)}"
            )
        tensors = _tensors(outputs, memoryview(answer.content)[end:])
        version = said.get("model_version")
        return reply_of(tensors, self._host, version if isinstance(version, str) else "")


def reply_of(tensors: Mapping[str, Tensor], host: RemoteSettings, version: str) -> RemoteReply:
    """Return the parts that are configured, out of the tensors that came. Raises `BadModelOutput`."""
    parts = {}
    for part, name in host.parts.items():
        if name is None:
            if len(tensors) != 1:
                names = ", ".join(map(shown, list(tensors)[:20])) or "none"
                raise BadModelOutput(f"host.output: the server gave several tensors or none; name one of: {names}")
            (tensor,) = tensors.values()
        elif name not in tensors:
            raise BadModelOutput(f"host.{part}: the server gave no such tensor: {one_of(name, map(shown, tensors))}")
        else:
            tensor = tensors[name]
        parts[part] = _value(tensor, part)
    return RemoteReply(parts=parts, version=version)


def _value(tensor: Tensor, part: str) -> Any:
    if not isinstance(tensor.values, list):
        return tensor.values
    try:
        texts = [element.decode() for element in tensor.values]
    except UnicodeDecodeError:
        raise BadModelOutput(f"host.{part}: its texts are not in UTF-8") from None
    nested: list[Any] = np.array(texts, dtype=object).reshape(tensor.shape).tolist()
    return nested


def _tensors(outputs: Sequence[Mapping[str, Any]], left: memoryview) -> dict[str, Tensor]:
    if len(outputs) > MOST_TENSORS:
        raise BadModelOutput(f"its reply has {len(outputs):,} tensors; at most {MOST_TENSORS:,} are read")
    tensors: dict[str, Tensor] = {}
    for at, one in enumerate(outputs):
        name, datatype, shape = one.get("name"), one.get("datatype"), one.get("shape")
        parameters = one.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, Mapping) else None
        if (
            not isinstance(name, str)
            or not isinstance(datatype, str)
            or not (isinstance(shape, list) and _are_sizes(shape))
        ):
            raise BadModelOutput(f"outputs.{at} of its reply has no name, datatype or shape that can be read")
        check_new(name, tensors)
        try:
            if size is None:
                tensors[name] = tensor_from_json(
                    name, datatype, shape, one.get("data"), place=f"outputs.{at} of its reply", bounds=REPLIED
                )
                continue
            if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(left):
                raise BadModelOutput(f"outputs.{at} of its reply: binary_data_size is not what came behind the JSON")
            tensors[name] = tensor_from_bytes(
                name, datatype, shape, left[:size], place=f"outputs.{at} of its reply", bounds=REPLIED
            )
            left = left[size:]
        except InvalidRequest as error:
            raise BadModelOutput(str(error)) from None
        except UnicodeEncodeError:
            raise BadModelOutput(f"outputs.{at} of its reply: a text is no Unicode") from None
    return tensors


def check_new(name: str, tensors: Mapping[str, Tensor]) -> None:
    """Raise `BadModelOutput` where a tensor of this name came before."""
    if name in tensors:
        raise BadModelOutput(f"its reply has two tensors with the name {shown(name)}")


def _are_sizes(shape: Sequence[Any]) -> bool:
    return all(isinstance(size, int) and not isinstance(size, bool) for size in shape)


def _json_end(answer: HttpAnswer) -> int:
    told = answer.headers.get(JSON_LENGTH.lower())
    if told is None:
        return len(answer.content)
    if not (told.isascii() and told.isdigit() and len(told) < 20) or int(told) > len(answer.content):
        raise BadModelOutput(f"the header {JSON_LENGTH} of its reply is {shown(told)}, which is not within the reply")
    return int(told)
