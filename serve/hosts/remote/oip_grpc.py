"""The Open Inference Protocol over gRPC, asked."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import grpc
from google.protobuf.message import DecodeError

from demur.serve.config.hosts.remote import RemoteSettings
from demur.serve.contract.body import MOST_VALUES, read_apart
from demur.serve.contract.inference_protocol.messages import CONTENTS, SERVICE, messages
from demur.serve.contract.inference_protocol.structure import RESPONSE, check_fields
from demur.serve.contract.inference_protocol.tensors import (
    Tensor,
    bytes_of,
    tensor_from_bytes,
    tensor_from_elements,
)
from demur.serve.contract.inputs import InvalidRequest, ModelInput
from demur.serve.hosts.endpoint_http import TimeLimit
from demur.serve.hosts.kind import BadModelOutput
from demur.serve.hosts.outages import EndpointAway, pause, retry_after
from demur.serve.hosts.remote.input_tensors import tensors_of
from demur.serve.hosts.remote.input_values import about_bytes
from demur.serve.hosts.remote.metadata import MOST, RemoteMetadata, TensorDescription
from demur.serve.hosts.remote.oip_rest import MOST_TENSORS, REPLIED, check_new, reply_of
from demur.serve.hosts.remote.replies import RemoteReply, shown
from demur.serve.hosts.remote.server import InputRefused, certificates, secret_headers
from demur.uncertainty.generation import Outage

PASSING = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED"})
"""Codes after which a request is sent again."""

LASTING = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "UNIMPLEMENTED", "FAILED_PRECONDITION"})
"""Codes that every request would get until somebody mends something."""

TOO_LONG = "received message larger than"
"""How gRPC itself begins to say that a message is longer than was allowed."""

SOON = 0.05
"""Seconds before the end of the time, in which the server's own answer about it may come."""

OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.compression_enabled_algorithms_bitset", 1),  # none: a compressed reply could be of any size
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.enable_retries", 0),  # what is sent again is counted here
)


class OipGrpc:
    """A `RemoteServer`."""

    def __init__(self, host: RemoteSettings) -> None:
        """Raises `BadModel` where a secret or a certificate is missing."""
        self._host = host
        secrets = secret_headers(host)
        self._secrets = list(secrets.values())
        self._headers = tuple((name.lower(), value) for name, value in {**host.headers, **secrets}.items())
        self._messages = messages()
        address = urlsplit(host.url)
        options = (*OPTIONS, ("grpc.max_receive_message_length", host.reply_bytes))
        if address.scheme == "grpcs":
            trusted = grpc.ssl_channel_credentials(root_certificates=certificates(host))
            self._channel = grpc.aio.secure_channel(address.netloc, trusted, options=options)
        else:
            self._channel = grpc.aio.insecure_channel(address.netloc, options=options)
        self._slots = asyncio.Semaphore(host.connections)

    async def close(self) -> None:
        await self._channel.close()

    async def ask(self, inputs: Sequence[ModelInput], limit: TimeLimit) -> RemoteReply:
        request = await read_apart(about_bytes(inputs), lambda: self._request(inputs))
        content = await self._called("ModelInfer", request, limit, self._host.retries)
        return await read_apart(len(content), lambda: self._reply(content))

    async def metadata(self, limit: TimeLimit) -> RemoteMetadata | None:
        named = {"name": self._host.model, "version": self._host.version}
        request = self._messages["ModelMetadataRequest"](**named).SerializeToString()
        said = self._parsed("ModelMetadataResponse", await self._called("ModelMetadata", request, limit, 0))
        return RemoteMetadata(
            versions=tuple(said.versions[:MOST]), inputs=_described(said.inputs), outputs=_described(said.outputs)
        )

    def _request(self, inputs: Sequence[ModelInput]) -> bytes:
        tensors, host = tensors_of(inputs, self._host), self._host
        parameters = {name: _parameter(value) for name, value in host.tensor.parameters.items()}
        request = self._messages["ModelInferRequest"](
            model_name=host.model,
            model_version=host.version,
            parameters={name: _parameter(value) for name, value in host.parameters.items()},
            inputs=[
                {"name": one.name, "datatype": one.datatype, "shape": one.shape, "parameters": parameters}
                for one in tensors
            ],
            outputs=[{"name": name} for name in host.parts.values() if name is not None],
            raw_input_contents=[bytes_of(one) for one in tensors],
        )
        content: bytes = request.SerializeToString()
        return content

    def _reply(self, content: bytes) -> RemoteReply:
        try:
            check_fields(content, RESPONSE)
        except InvalidRequest as error:
            raise BadModelOutput(f"its reply is too large: {error}") from None
        said = self._parsed("ModelInferResponse", content)
        raw = said.raw_output_contents
        if len(said.outputs) > MOST_TENSORS or (raw and len(raw) != len(said.outputs)):
            raise BadModelOutput(f"its reply has {len(said.outputs):,} tensors, and data for {len(raw):,}")
        tensors: dict[str, Tensor] = {}
        for at, one in enumerate(said.outputs):
            check_new(one.name, tensors)
            data = memoryview(raw[at]) if raw else None
            try:
                tensors[one.name] = _tensor(one, data, place=f"outputs.{at} of its reply")
            except InvalidRequest as error:
                raise BadModelOutput(str(error)) from None
        return reply_of(tensors, self._host, said.model_version)

    def _parsed(self, name: str, content: bytes) -> Any:
        try:
            return self._messages[name].FromString(content)
        except DecodeError:
            raise BadModelOutput(f"its reply is no {name}: {shown(content)}") from None

    async def _called(self, name: str, request: bytes, limit: TimeLimit, retries: int) -> bytes:
        """The reply to a call, which is made again where it fails in passing, within the limit."""
        call = self._channel.unary_unary(f"/{SERVICE}/{name}")
        loop = asyncio.get_running_loop()
        tries = 0
        try:
            async with asyncio.timeout_at(limit.deadline), self._slots:
                while True:
                    tries += 1
                    left = max(limit.deadline - loop.time() - SOON, 0.001)
                    try:
                        content: bytes = await call(request, metadata=self._headers, timeout=left)
                        return content
                    except grpc.aio.AioRpcError as error:
                        failure = self._failure(error)
                        if not isinstance(failure, EndpointAway) or not failure.outage.passes or tries > retries:
                            raise failure from None
                        wait = pause(tries, failure.outage.retry_after)
                        if loop.time() + wait >= limit.deadline:
                            raise failure from None
                    await asyncio.sleep(wait)
        except TimeoutError:
            raise self._away(f"gave no whole reply within {limit.seconds:.3g} s", passes=True) from None

    def _failure(self, error: grpc.aio.AioRpcError) -> Exception:
        """What a status that is not OK means."""
        code, said = error.code().name, " ".join((error.details() or "nothing more").split())
        for secret in self._secrets:
            said = said.replace(secret, "(the key)")
        why = f"answered {code}: {shown(said)}"
        if code == "RESOURCE_EXHAUSTED" and TOO_LONG in said.lower():
            return BadModelOutput(
                f"{self._host.url} sent more than {self._host.reply_bytes:,} bytes; see host.reply_bytes"
            )
        if code == "DEADLINE_EXCEEDED":
            return self._away("gave no whole reply in its time", passes=True)
        if code in PASSING:
            trailing = {str(key): str(value) for key, value in error.trailing_metadata() or ()}
            return self._away(f"answered {code}", why, passes=True, seconds=retry_after(trailing))
        if code in LASTING:
            return self._away(f"answered {code}", f"{why}; see host.url, host.model, host.headers_env", passes=False)
        return InputRefused(f"{self._host.url} {why}")

    def _away(self, what: str, why: str = "", *, passes: bool, seconds: float | None = None) -> EndpointAway:
        return EndpointAway(
            Outage(what=what, why=f"{self._host.url} {why or what}", passes=passes, retry_after=seconds)
        )


def _tensor(said: Any, raw: memoryview | None, *, place: str) -> Tensor:
    if raw is not None:
        return tensor_from_bytes(said.name, said.datatype, said.shape, raw, place=place, bounds=REPLIED)
    field = CONTENTS.get(said.datatype)
    if field is None:
        raise BadModelOutput(f"{place}: {shown(said.datatype)} has to come as raw_output_contents")
    elements = getattr(said.contents, field)
    if len(elements) > MOST_VALUES:
        raise BadModelOutput(f"{place}: there are {len(elements):,} elements; at most {MOST_VALUES:,} are read so")
    return tensor_from_elements(said.name, said.datatype, said.shape, list(elements), place=place, bounds=REPLIED)


def _described(said: Sequence[Any]) -> tuple[TensorDescription, ...]:
    return tuple(TensorDescription(one.name, one.datatype, tuple(one.shape[:MOST])) for one in said[:MOST])


def _parameter(value: bool | int | float | str) -> Mapping[str, Any]:
    kinds: dict[type, str] = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
    return {kinds[type(value)]: value}
