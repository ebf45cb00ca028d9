"""The protocol over gRPC, on a port of its own: the same inference as over HTTP, in other words."""

import logging
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from demur.serve.access.authenticator import Authenticator
from demur.serve.access.caller import Caller, owner_of
from demur.serve.config.access import Scope
from demur.serve.config.file import LimitsConfig
from demur.serve.contract.body import read_apart
from demur.serve.contract.inference_protocol.messages import CONTENTS, SERVICE, messages
from demur.serve.contract.inference_protocol.structure import check_fields
from demur.serve.contract.inference_protocol.tensors import Tensor, bytes_of, tensor_from_bytes, tensor_from_elements
from demur.serve.contract.inputs import InvalidRequest, TooLarge
from demur.serve.contract.wire import MalformedBody
from demur.serve.gateway.handler import Handler
from demur.serve.gateway.intake import Arrival, Intake
from demur.serve.gateway.request_limit import RequestLimit
from demur.serve.telemetry.request_middleware import call_received
from demur.serve.web.errors import retry_after
from demur.serve.web.inference_protocol.body import Scalar
from demur.serve.web.inference_protocol.errors import problem_of
from demur.serve.web.inference_protocol.inference import infer
from demur.serve.web.inference_protocol.served import ServedModels, check_may_ask, model_json, server_json
from demur.serve.web.inference_protocol.versions import check_version
from demur.serve.web.native.deadline import within

logger = logging.getLogger("demur.grpc")

CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.ALREADY_EXISTS,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    502: grpc.StatusCode.FAILED_PRECONDITION,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
"""Of each status over HTTP; what is not here is INTERNAL."""

REQUEST_ID = "x-request-id"
RETRY_AFTER = "retry-after"

LONGEST_MESSAGE = 2000
"""Characters of an error: it travels in a header."""

MOST_AT_ONCE = 4096
"""Calls to one gateway; whoever comes then is told RESOURCE_EXHAUSTED."""

MOST_CONNECTIONS = 4096
"""To one gateway, and at most `SHARE_OF_FILES` of the files that it may open; one more is closed at once. No HAProxy
stands before this port, and without files a gateway could not take requests over HTTP either."""

SHARE_OF_FILES = 0.25

HANDSHAKE_SECONDS = 10.0
"""A connection over which nobody speaks HTTP/2 is closed after that time."""

IDLE_SECONDS = 120.0
"""So is one over which nobody calls. Clients open another one by themselves."""

HEADROOM_BYTES = 64 * 2**10
"""Of a message, beside the data of its tensors."""

MOST_ELEMENTS = 2**22
"""Of a tensor that is not sent as bytes: each becomes an object."""


@asynccontextmanager
async def listening(
    handler: Handler,
    *,
    host: str,
    port: int,
    limits: LimitsConfig,
    keeper: Authenticator | None = None,
    room: RequestLimit | None = None,
    intake: Intake | None = None,
    access_log: bool = False,
    stop_seconds: float = 10.0,
) -> AsyncIterator[int]:
    """Answer at this address for as long as this is open; gives the port, which is a free one if it is told 0. Gateways
    on one machine share the port: the kernel spreads connections over them. `keeper` stands at the door, if anybody
    does; `room` and `intake` are those of the gateway, which requests over HTTP take their places in as well; calls
    that have begun may take `stop_seconds` more at the end."""
    longest = limits.body_bytes + HEADROOM_BYTES
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", longest),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 1),
            ("grpc.max_allowed_incoming_connections", most_connections()),
            ("grpc.server_handshake_timeout_ms", int(1000 * HANDSHAKE_SECONDS)),
            ("grpc.max_connection_idle_ms", int(1000 * IDLE_SECONDS)),
        ],
        maximum_concurrent_rpcs=MOST_AT_ONCE,
    )
    service = InferenceService(
        handler, keeper, room or RequestLimit(most=MOST_AT_ONCE), intake or Intake(limits), access_log=access_log
    )
    server.add_generic_rpc_handlers((_handlers(service),))
    bound = server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(stop_seconds)


def most_connections() -> int:
    """How many connections one gateway takes here."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, int(files * SHARE_OF_FILES))


class InferenceService:
    """The calls of the protocol. Each returns the content of its response, or raises what `problem_of` knows."""

    def __init__(
        self, handler: Handler, keeper: Authenticator | None, room: RequestLimit, intake: Intake, *, access_log: bool
    ) -> None:
        self._handler = handler
        self._keeper = keeper
        self._room, self._intake = room, intake
        self._access_log = access_log
        self._models = ServedModels(handler)
        self._messages = messages()

    async def ServerLive(self, _request: Any, _context: Any, _caller: Caller | None) -> dict[str, Any]:  # noqa: N802 - the protocol's names
        return {"live": True}

    async def ServerReady(self, _request: Any, _context: Any, _caller: Caller | None) -> dict[str, Any]:  # noqa: N802
        return {"ready": (await self._handler.inquiries.health())["status"] == "ok"}

    async def ModelReady(self, request: Any, _context: Any, caller: Caller | None) -> dict[str, Any]:  # noqa: N802
        check_may_ask(caller, request.name)
        return {"ready": await self._models.ready(request.name, request.version)}

    async def ServerMetadata(self, _request: Any, _context: Any, _caller: Caller | None) -> dict[str, Any]:  # noqa: N802
        return server_json()

    async def ModelMetadata(self, request: Any, _context: Any, caller: Caller | None) -> dict[str, Any]:  # noqa: N802
        check_may_ask(caller, request.name)
        model, state = await self._models.model(request.name), await self._models.state(request.name)
        if request.version:
            check_version(request.name, request.version, state)
        return model_json(model, state)

    async def ModelInfer(self, request: Any, context: Any, caller: Caller | None) -> dict[str, Any]:  # noqa: N802
        check_may_ask(caller, request.model_name)
        model = await self._models.model(request.model_name)
        parameters = {name: _scalar(name, told) for name, told in request.parameters.items()}
        key = next((value for name, value in context.invocation_metadata() if name == "idempotency-key"), None)
        done = await infer(
            self._handler,
            self._models,
            model,
            request.model_version,
            await read_apart(request.ByteSize(), lambda: _tensors(request)),
            parameters,
            _wanted(request) or list(model.outputs),
            key,
            caller,
        )
        if done.replayed:
            context.set_trailing_metadata((*context.trailing_metadata(), ("idempotent-replay", "true")))
        as_bytes = len(request.raw_input_contents) > 0
        return {
            "model_name": model.name,
            "model_version": done.version or "",
            "id": request.id,
            "parameters": {name: _parameter(value) for name, value in done.parameters.items()},
            "outputs": [_output(tensor, as_bytes) for tensor in done.tensors],
            "raw_output_contents": [bytes_of(tensor) for tensor in done.tensors] if as_bytes else [],
        }

    async def _admitted(self, context: Any) -> Caller | None:
        """Who calls; None where nobody stands at the door. Raises as `Authenticator.admit` does."""
        if self._keeper is None:
            return None
        headers = {name: value for name, value in context.invocation_metadata() if isinstance(value, str)}
        return await self._keeper.admit(headers, Scope.PREDICT)

    def handler_of(self, name: str) -> grpc.RpcMethodHandler:
        """One of the calls, from message to message. It takes a stream, and reads the one message that there is: so
        whoever calls is known, and is let in or not, before any of it is read."""
        call: Callable[[Any, Any, Caller | None], Awaitable[dict[str, Any]]] = getattr(self, name)
        response = self._messages[f"{name}Response"]
        path = f"/{SERVICE}/{name}"

        async def in_its_place(stream: AsyncIterator[bytes], context: Any) -> dict[str, Any]:
            caller = None if name in OPEN else await self._admitted(context)
            owner = owner_of(caller)
            with Arrival(self._intake, owner) as arrival:
                if name in OPEN:
                    return await call(await self._request(name, stream, arrival), context, None)
                self._room.check(owner)
                request = await self._request(name, stream, arrival)
                self._room.enter(owner)
                try:
                    # of a caller that goes away the whole call is cancelled; one whose time is over is told so
                    return await within(context.time_remaining(), call(request, context, caller))
                finally:
                    self._room.leave(owner)

        async def answer(stream: AsyncIterator[bytes], context: Any) -> Any:
            metadata = context.invocation_metadata()
            with call_received(self._handler.telemetry, path, metadata, access_log=self._access_log) as received:
                context.set_trailing_metadata(((REQUEST_ID, received.request_id),))
                try:
                    told = response(**await in_its_place(stream, context))
                    received.status = 200
                    return told
                except Exception as error:
                    received.status, problem = problem_of(error)
                    if received.status not in CODES:
                        logger.error("%s failed", name, exc_info=error)
                    code = CODES.get(received.status, grpc.StatusCode.INTERNAL)
                    if (seconds := retry_after(error)) is not None:
                        wait = (RETRY_AFTER, str(seconds))
                        context.set_trailing_metadata((*context.trailing_metadata(), wait))
                    await context.abort(code, problem["error"][:LONGEST_MESSAGE])

        return grpc.stream_unary_rpc_method_handler(answer, response_serializer=response.SerializeToString)

    async def _request(self, name: str, stream: AsyncIterator[bytes], arrival: Arrival) -> Any:
        """The message of a call. Raises what `Arrival.over_grpc` does, `MalformedBody` or `TooLarge`."""

        async def first() -> bytes:
            async for message in stream:
                return message
            raise MalformedBody("the call has no message")

        message = await arrival.over_grpc(first())

        def parsed() -> Any:
            if name == "ModelInfer":
                check_fields(message)
            try:
                return self._messages[f"{name}Request"].FromString(message)
            except DecodeError:
                raise MalformedBody("the message is none of this call") from None

        return await read_apart(len(message), parsed)


OPEN = frozenset({"ServerLive", "ServerReady"})
"""What anybody may ask, as over HTTP."""

CALLS = ("ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer")


def _handlers(service: InferenceService) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(SERVICE, {name: service.handler_of(name) for name in CALLS})


def _tensors(request: Any) -> list[Tensor]:
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise InvalidRequest(f"raw_input_contents: there are {len(raw)} for {len(request.inputs)} inputs")
    tensors = []
    for at, told in enumerate(request.inputs):
        place = f"inputs.{at}"
        if "shared_memory_region" in told.parameters:
            raise InvalidRequest(f"{place}.parameters.shared_memory_region: this extension is not offered")
        if raw:
            if told.HasField("contents"):
                raise InvalidRequest(f"{place}.contents: give these or raw_input_contents, and not both")
            data = memoryview(raw[at])
            tensors.append(tensor_from_bytes(told.name, told.datatype, told.shape, data, place=place))
            continue
        if told.datatype == "FP16":
            raise InvalidRequest(f"{place}.contents: the protocol has no FP16 here; send it as raw_input_contents")
        contents = getattr(told.contents, CONTENTS.get(told.datatype, "bytes_contents"))
        if len(contents) > MOST_ELEMENTS:
            raise TooLarge(
                f"{place}.contents: there are {len(contents):,} elements; more than {MOST_ELEMENTS:,} are sent as"
                " raw_input_contents"
            )
        elements = list(contents)
        tensors.append(tensor_from_elements(told.name, told.datatype, told.shape, elements, place=place))
    return tensors


def _wanted(request: Any) -> list[str]:
    for at, output in enumerate(request.outputs):
        for name in ("classification", "shared_memory_region"):
            if name in output.parameters:
                raise InvalidRequest(f"outputs.{at}.parameters.{name}: this extension is not offered")
    return [output.name for output in request.outputs]


def _output(tensor: Tensor, as_bytes: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape}
    if not as_bytes:
        elements: Sequence[Any] = tensor.values if isinstance(tensor.values, list) else tensor.values.ravel().tolist()
        told["contents"] = {CONTENTS[tensor.datatype]: elements}
    return told


def _scalar(name: str, parameter: Any) -> Scalar:
    chosen = parameter.WhichOneof("parameter_choice")
    if chosen is None:
        raise InvalidRequest(f"parameters.{name}: the value is missing")
    value: Scalar = getattr(parameter, chosen)
    return value


def _parameter(value: Scalar) -> dict[str, Scalar]:
    kinds: dict[type, str] = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}
    return {kinds[type(value)]: value}
