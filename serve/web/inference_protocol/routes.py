"""The routes of the Open Inference Protocol, version 2, over HTTP."""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from demur.serve.access.caller import caller_of
from demur.serve.contract import wire
from demur.serve.contract.body import read_apart
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.gateway.handler import Handler
from demur.serve.web.errors import retry_after
from demur.serve.web.inference_protocol.body import JSON_LENGTH_HEADER, InferResponse, read_body, wanted_of, written
from demur.serve.web.inference_protocol.errors import InferProblem, problem_of
from demur.serve.web.inference_protocol.inference import infer
from demur.serve.web.inference_protocol.served import ServedModels, check_may_ask, model_json, server_json
from demur.serve.web.inference_protocol.versions import check_version
from demur.serve.web.native.deadline import seconds_of, within

logger = logging.getLogger("demur.http")

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


def add_inference_routes(
    app: FastAPI,
    handler: Handler,
    read_body_of: Callable[[Request], Awaitable[bytes]],
    idempotency_key: Any,
    request_timeout: Any,
) -> None:
    """`read_body_of` returns the whole body, read no further than what is taken."""
    models = ServedModels(handler)

    def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
        return {status: {"model": InferProblem, "description": MEANINGS[status]} for status in statuses}

    @app.get("/v2", response_model=ServerMetadata, summary="The server")
    async def server() -> Response:
        return _json(server_json())

    @app.get("/v2/health/live", response_model=Live, summary="Whether the server answers")
    async def live() -> Response:
        return _json({"live": True})

    @app.get(
        "/v2/health/ready",
        response_model=Ready,
        responses={503: {"model": Ready, "description": "Something is not well; /healthz says what"}},
        summary="Whether all models can be asked, and predictions recorded",
    )
    async def ready() -> Response:
        well = (await handler.inquiries.health())["status"] == "ok"
        return _json({"ready": well}, 200 if well else 503)

    @app.get("/v2/models", response_model=ModelNames, summary="The models")
    async def names(request: Request) -> Response:
        return _json({"models": models.names_for(caller_of(request.scope))})

    async def metadata(request: Request, name: str, version: str = "") -> Response:
        try:
            check_may_ask(caller_of(request.scope), name)
            model, state = await models.model(name), await models.state(name)
            if version:
                check_version(name, version, state)
            return _json(model_json(model, state))
        except Exception as error:
            return problem_response(request, error)

    async def model_ready(request: Request, name: str, version: str = "") -> Response:
        try:
            check_may_ask(caller_of(request.scope), name)
            well = await models.ready(name, version)
            return _json({"name": name, "ready": well}, 200 if well else 503)
        except Exception as error:
            return problem_response(request, error)

    async def inferred(request: Request, key: str | None, name: str, version: str = "") -> Response:
        if request.headers.get("content-encoding", "identity") != "identity":
            raise InvalidRequest("Content-Encoding: compressed bodies are not taken; send it as it is")
        body, length = await read_body_of(request), request.headers.get(JSON_LENGTH_HEADER)
        asked, tensors = await read_apart(len(body), lambda: read_body(body, length))
        if asked.model_name not in (None, name):
            raise InvalidRequest(f"model_name: the address says {name!r}, and this {asked.model_name!r}")
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

    async def in_time(request: Request, timeout: str | None, work: Coroutine[Any, Any, Response]) -> Response:
        try:
            return await within(seconds_of(timeout), work)
        except Exception as error:
            return problem_response(request, error)
        finally:
            work.close()

    described: dict[str, Any] = {
        "response_model": InferResponse,
        "responses": {
            200: {
                "description": "What was decided about each row.",
                "headers": {JSON_LENGTH_HEADER: {"schema": {"type": "integer"}, "description": LENGTH["description"]}},
                "content": {"application/octet-stream": BYTES_BEHIND},
            },
            **problems(*MEANINGS),
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

    @app.get(
        "/v2/models/{model}",
        response_model=ModelMetadata,
        responses=problems(404, 503),
        summary="What a model takes and gives",
    )
    async def model_metadata(request: Request, model: str) -> Response:
        return await metadata(request, model)

    @app.get(
        "/v2/models/{model}/versions/{version}",
        response_model=ModelMetadata,
        responses=problems(404, 503),
        summary="The same, if this artifact is in force",
    )
    async def version_metadata(request: Request, model: str, version: str) -> Response:
        return await metadata(request, model, version)

    not_ready: dict[int | str, dict[str, Any]] = {503: {"model": ModelReady, "description": "It cannot be asked yet"}}

    @app.get(
        "/v2/models/{model}/ready",
        response_model=ModelReady,
        responses={**problems(404), **not_ready},
        summary="Whether a model can be asked",
    )
    async def whether_ready(request: Request, model: str) -> Response:
        return await model_ready(request, model)

    @app.get(
        "/v2/models/{model}/versions/{version}/ready",
        response_model=ModelReady,
        responses={**problems(404), **not_ready},
        summary="Whether this artifact is in force",
    )
    async def whether_version_ready(request: Request, model: str, version: str) -> Response:
        return await model_ready(request, model, version)

    @app.post("/v2/models/{model}/infer", summary="Predict, as the Open Inference Protocol has it", **described)
    async def infer_rows(
        request: Request, model: str, key: idempotency_key = None, timeout: request_timeout = None
    ) -> Response:
        return await in_time(request, timeout, inferred(request, key, model))

    @app.post(
        "/v2/models/{model}/versions/{version}/infer", summary="The same, if this artifact is in force", **described
    )
    async def infer_rows_of_version(
        request: Request,
        model: str,
        version: str,
        key: idempotency_key = None,
        timeout: request_timeout = None,
    ) -> Response:
        return await in_time(request, timeout, inferred(request, key, model, version))


def problem_response(request: Request, error: Exception) -> Response:
    status, problem = problem_of(error)
    if status == 500:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    seconds = retry_after(error)
    headers = None if seconds is None else {"Retry-After": str(seconds)}
    return Response(wire.dump(problem), status, headers, "application/json")


def _json(content: Any, status: int = 200) -> Response:
    return Response(wire.dump(content), status, None, "application/json")
