"""The routes of the Open Inference Protocol, version 2, over HTTP."""

from collections.abc import Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from demur.serve.access.caller import caller_of
from demur.serve.contract import wire
from demur.serve.contract.body import read_apart
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.inference_protocol.body import JSON_LENGTH_HEADER, InferResponse, read_body, wanted_of, written
from demur.serve.web.inference_protocol.errors import InferProblem
from demur.serve.web.inference_protocol.inference import infer
from demur.serve.web.inference_protocol.served import check_may_ask, model_json, server_json
from demur.serve.web.inference_protocol.versions import check_version
from demur.serve.web.native.deadline import seconds_of, within
from demur.serve.web.native.headers import IdempotencyKey, RequestTimeout
from demur.serve.web.native.parts import body_of, handler_of, parts_of
from demur.serve.web.problems import logged_problem

MEANINGS = {
    400: "Something in the request does not fit; the message says what",
    404: "No such model, or the version is not the artifact in force",
    408: "The body did not come in time (`limits` in the configuration)",
    409: "The Idempotency-Key was used with another input",
    413: "More than `limits` in the configuration allows",
    502: "The model's endpoint answers nobody until somebody mends something; waiting does not help",
    503: "Not possible right now; try again after `Retry-After` seconds",
    504: "The time of X-Request-Timeout is over, and nothing was answered",
}

LENGTH: dict[str, Any] = {
    "name": JSON_LENGTH_HEADER,
    "in": "header",
    "required": False,
    "description": "How long the JSON at the head of the body is, where data of tensors follows it as bytes.",
    "schema": {"type": "integer", "minimum": 0},
}
BYTES_BEHIND: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}


class Live(BaseModel):
    live: bool


class Ready(BaseModel):
    ready: bool


class ModelReady(BaseModel):
    name: str
    ready: bool


class ServerMetadata(BaseModel):
    name: str
    version: str
    extensions: list[str]


class ModelNames(BaseModel):
    models: list[str]


class TensorMetadata(BaseModel):
    name: str
    datatype: str
    shape: list[int] = Field(description="-1 stands for any number of rows.")


class ModelMetadata(BaseModel):
    name: str
    versions: list[str] = Field(description="The artifacts that decide at present.")
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": InferProblem, "description": MEANINGS[status]} for status in statuses}


DESCRIBED: dict[str, Any] = {
    "response_model": InferResponse,
    "responses": {
        200: {
            "description": "What was decided about each row.",
            "headers": {JSON_LENGTH_HEADER: {"schema": {"type": "integer"}, "description": LENGTH["description"]}},
            "content": {"application/octet-stream": BYTES_BEHIND},
        },
        **_problems(*MEANINGS),
    },
    "openapi_extra": {
        "parameters": [LENGTH],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/InferRequest"}},
                "application/octet-stream": BYTES_BEHIND,
            },
        },
    },
}

NOT_READY: dict[int | str, dict[str, Any]] = {503: {"model": ModelReady, "description": "It cannot be asked yet"}}

router = APIRouter(tags=["Open Inference Protocol"])


@router.get("/v2", response_model=ServerMetadata, summary="The server")
async def server() -> Response:
    return _json(server_json())


@router.get("/v2/health/live", response_model=Live, summary="Whether the server answers")
async def live() -> Response:
    return _json({"live": True})


@router.get(
    "/v2/health/ready",
    response_model=Ready,
    responses={503: {"model": Ready, "description": "Something is not well; /healthz says what"}},
    summary="Whether all models can be asked, and predictions recorded",
)
async def ready(request: Request) -> Response:
    well = (await handler_of(request).inquiries.health())["status"] == "ok"
    return _json({"ready": well}, 200 if well else 503)


@router.get("/v2/models", response_model=ModelNames, summary="The models")
async def names(request: Request) -> Response:
    return _json({"models": parts_of(request).served.names_for(caller_of(request.scope))})


@router.get(
    "/v2/models/{model}",
    response_model=ModelMetadata,
    responses=_problems(404, 503),
    summary="What a model takes and gives",
)
async def model_metadata(request: Request, model: str) -> Response:
    return await _metadata(request, model)


@router.get(
    "/v2/models/{model}/versions/{version}",
    response_model=ModelMetadata,
    responses=_problems(404, 503),
    summary="The same, if this artifact is in force",
)
async def version_metadata(request: Request, model: str, version: str) -> Response:
    return await _metadata(request, model, version)


@router.get(
    "/v2/models/{model}/ready",
    response_model=ModelReady,
    responses={**_problems(404), **NOT_READY},
    summary="Whether a model can be asked",
)
async def whether_ready(request: Request, model: str) -> Response:
    return await _model_ready(request, model)


@router.get(
    "/v2/models/{model}/versions/{version}/ready",
    response_model=ModelReady,
    responses={**_problems(404), **NOT_READY},
    summary="Whether this artifact is in force",
)
async def whether_version_ready(request: Request, model: str, version: str) -> Response:
    return await _model_ready(request, model, version)


@router.post("/v2/models/{model}/infer", summary="Predict, as the Open Inference Protocol has it", **DESCRIBED)
async def infer_rows(
    request: Request, model: str, key: IdempotencyKey = None, timeout: RequestTimeout = None
) -> Response:
    return await _in_time(request, timeout, _inferred(request, key, model))


@router.post(
    "/v2/models/{model}/versions/{version}/infer", summary="The same, if this artifact is in force", **DESCRIBED
)
async def infer_rows_of_version(
    request: Request,
    model: str,
    version: str,
    key: IdempotencyKey = None,
    timeout: RequestTimeout = None,
) -> Response:
    return await _in_time(request, timeout, _inferred(request, key, model, version))


async def _metadata(request: Request, name: str, version: str = "") -> Response:
    models = parts_of(request).served
    try:
        check_may_ask(caller_of(request.scope), name)
        model, state = await models.model(name), await models.state(name)
        if version:
            check_version(name, version, state)
        return _json(model_json(model, state))
    except Exception as error:
        return logged_problem(request, error)


async def _model_ready(request: Request, name: str, version: str = "") -> Response:
    models = parts_of(request).served
    try:
        check_may_ask(caller_of(request.scope), name)
        well = await models.ready(name, version)
        return _json({"name": name, "ready": well}, 200 if well else 503)
    except Exception as error:
        return logged_problem(request, error)


async def _inferred(request: Request, key: str | None, name: str, version: str = "") -> Response:
    if request.headers.get("content-encoding", "identity") != "identity":
        raise InvalidRequest("Content-Encoding: compressed bodies are not taken; send it as it is")
    body, length = await body_of(request), request.headers.get(JSON_LENGTH_HEADER)
    asked, tensors = await read_apart(len(body), lambda: read_body(body, length))
    if asked.model_name not in (None, name):
        raise InvalidRequest(f"model_name: the address says {name!r}, and this {asked.model_name!r}")
    handler, models = handler_of(request), parts_of(request).served
    model = await models.model(name)
    wanted = wanted_of(asked, list(model.outputs))
    names, told = [output.name for output in wanted], asked.parameters or {}
    caller = caller_of(request.scope)
    done = await infer(handler, models, model, version, tensors, told, names, key, caller)
    head = {"model_name": name, "model_version": done.version, "id": asked.id, "parameters": done.parameters}
    known = {name: value for name, value in head.items() if value is not None}
    content, data_at = written(known, done.tensors, [output.binary for output in wanted])
    headers = {"Idempotent-Replay": "true"} if done.replayed else {}
    if data_at is None:
        return Response(content, 200, headers, "application/json")
    return Response(content, 200, {**headers, JSON_LENGTH_HEADER: str(data_at)}, "application/octet-stream")


async def _in_time(request: Request, timeout: str | None, work: Coroutine[Any, Any, Response]) -> Response:
    try:
        return await within(seconds_of(timeout), work)
    except Exception as error:
        return logged_problem(request, error)
    finally:
        work.close()


def _json(content: Any, status: int = 200) -> Response:
    return Response(wire.dump(content), status, None, "application/json")
