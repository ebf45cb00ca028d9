"""The gateway's HTTP: routes, status codes, the OpenAPI document. Everything else is the handler's."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from serve import wire
from serve.chat import request as chat
from serve.chat.routes import add_chat_routes
from serve.errors import RETRY_AFTER_SECONDS, STATUS, problem_json, status_of
from serve.gateway.handler import Handler
from serve.gateway.journal import Committed
from serve.inputs import InvalidRequest, TooLarge

logger = logging.getLogger("demur.http")

DESCRIPTION = """
Ask for a prediction; get an answer with a calibrated probability of being right, or an honest *a person should look*.

Every response with an `id` is on record before it is sent. What was held for review can be asked about at
`/v1/predictions/{id}`, where the person's answer appears.
"""

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Makes a retry safe: the same key with the same input returns the stored answer and writes nothing;"
        " with another input it is a 409. 1 to 255 printable ASCII characters without blanks.",
        json_schema_extra={"pattern": wire.IDEMPOTENCY_KEY},
    ),
]


Wait = Annotated[
    float,
    Query(
        ge=0,
        le=60,
        allow_inf_nan=False,
        description="For how many seconds to wait for an outcome, or for the review to end without one. The response"
        " comes as soon as there is one, at once where there is one already, and after that time with what is known"
        " then. Let the time limit of your HTTP client be longer.",
    ),
]

CLIENT_CLOSED_REQUEST = 499
"""What nobody receives any more; it is seen in logs."""


def gateway_app(handler: Handler, *, max_body_bytes: int) -> FastAPI:
    """The gateway as an ASGI application."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        await handler.close()

    app: FastAPI = FastAPIOffline(
        title="demur", description=DESCRIPTION, version="1", docs_url="/docs", redoc_url=None, lifespan=lifespan
    )
    for kind in STATUS:
        app.add_exception_handler(kind, _as_problem)
    app.add_exception_handler(RequestValidationError, _as_invalid_request)
    app.add_exception_handler(HTTPException, _as_plain_problem)
    app.add_exception_handler(Exception, _as_problem)

    @app.post(
        "/v1/predict",
        response_model=wire.Prediction,
        responses=_problems(400, 404, 409, 413, 422, 503),
        openapi_extra=takes(wire.PredictRequest),
        summary="Predict, or say that a person should look",
    )
    async def predict(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
        result = await handler.predict(await whole_body(request, max_body_bytes), idempotency_key)
        return _json(wire.prediction_json(result.record), replayed=result.replayed)

    @app.post(
        "/v1/predict/batch",
        response_model=wire.BatchResponse,
        responses=_problems(400, 409, 413, 422, 503),
        openapi_extra=takes(wire.BatchRequest),
        summary="Predict up to 1,024 inputs, each by itself",
    )
    async def predict_batch(request: Request, idempotency_key: IdempotencyKey = None) -> Response:
        results = await handler.predict_batch(await whole_body(request, max_body_bytes), idempotency_key)
        return _json({"results": [_batch_result(result) for result in results]})

    @app.get(
        "/v1/predictions/{id}",
        response_model=wire.PredictionView,
        responses=_problems(404, 422, 503),
        summary="What became of a prediction",
    )
    async def prediction(id: UUID, request: Request, wait: Wait = 0) -> Response:
        if wait == 0:
            return _json(await handler.prediction(id))
        return await _unless_gone(request, handler.prediction(id, wait_seconds=wait))

    @app.post(
        "/v1/predictions/{id}/outcome",
        status_code=201,
        response_model=wire.OutcomeView,
        responses=_problems(400, 404, 413, 422, 503),
        openapi_extra=takes(wire.OutcomeRequest),
        summary="Tell the truth about a prediction",
    )
    async def add_outcome(id: UUID, request: Request) -> Response:
        told = await handler.add_outcome(id, await whole_body(request, max_body_bytes))
        return _json(wire.outcome_json(told), status=201)

    @app.get(
        "/healthz",
        response_model=wire.Health,
        responses={503: {"model": wire.Health, "description": "Something is not well; the body says what"}},
        summary="Whether predictions can be made and recorded",
    )
    async def healthz() -> Response:
        health = await handler.health()
        return _json(health, status=200 if health["status"] == "ok" else 503)

    add_chat_routes(app, handler, lambda request: whole_body(request, max_body_bytes), IdempotencyKey)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def problem_response(error: Exception) -> Response:
    status = status_of(error)
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if status == 503 else None
    return Response(wire.dump({"error": problem_json(error)}), status, headers, "application/json")


async def _unless_gone(request: Request, work: Coroutine[Any, Any, dict[str, Any]]) -> Response:
    """The result of some work that takes its time; it is given up when the caller goes away."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return _json(working.result()) if working.done() else Response(status_code=CLIENT_CLOSED_REQUEST)
    finally:
        working.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    """Come back when the caller has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def whole_body(request: Request, limit: int) -> bytes:
    """The whole body, read no further than the limit."""
    size = 0
    parts = []
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise TooLarge(f"the body has more than {limit:,} bytes, which is what is taken (limits.body_bytes)")
        parts.append(part)
    return b"".join(parts)


def _batch_result(result: Committed | Exception) -> dict[str, Any]:
    if isinstance(result, Exception):
        return {"status": status_of(result), "prediction": None, "error": problem_json(result)}
    return {"status": 200, "prediction": wire.prediction_json(result.record), "error": None}


def _json(value: Any, *, status: int = 200, replayed: bool = False) -> Response:
    headers = {"Idempotent-Replay": "true"} if replayed else None
    return Response(wire.dump(value), status, headers, "application/json")


async def _as_problem(request: Request, error: Exception) -> Response:
    if status_of(error) == 500:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(error)


async def _as_invalid_request(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(in_words(error))


def in_words(error: RequestValidationError) -> InvalidRequest:
    """What does not fit in an address or its parameters."""
    return InvalidRequest("; ".join(f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg'].lower()}" for e in error.errors()))


async def _as_plain_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return plain_problem(request, error)


def plain_problem(request: Request, error: HTTPException) -> Response:
    """Unknown paths and wrong methods, in the same form as every other problem."""
    told = {
        404: ("NotFound", f"there is nothing at {request.url.path}; see /docs"),
        405: ("MethodNotAllowed", f"{request.method} is not possible at {request.url.path}; see /docs"),
    }
    kind, message = told.get(error.status_code, ("HttpError", str(error.detail)))
    return Response(
        wire.dump({"error": {"kind": kind, "message": message}}),
        error.status_code,
        error.headers,
        "application/json",
    )


MEANINGS = {
    400: "The body is not JSON",
    404: "No such model or prediction",
    409: "The Idempotency-Key was used with another input",
    413: "More than `limits` in the configuration allows",
    422: "Something in the request does not fit; the message says what",
    503: "Not possible right now, and nothing was recorded; try again after `Retry-After` seconds",
}


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": wire.ProblemResponse, "description": MEANINGS[status]} for status in statuses}


def takes(body: type[wire.Body], *, required: bool = True) -> dict[str, Any]:
    """The body is parsed by hand, once, so the document is told by hand what it is."""
    reference = {"$ref": f"#/components/schemas/{body.__name__}"}
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": reference}}}}


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document["components"]["schemas"]
        describe(schemas, wire.PredictRequest, wire.BatchRequest, wire.OutcomeRequest, chat.ChatRequest)
        items = {"$ref": "#/components/schemas/PredictRequest"}  # each is checked by itself, not by the batch
        schemas["BatchRequest"]["properties"]["items"]["items"] = items
        app.openapi_schema = document
    return app.openapi_schema


def describe(schemas: dict[str, Any], *bodies: type[wire.Body]) -> None:
    """Add bodies that are parsed by hand to the schemas of a document."""
    for body in bodies:
        described = body.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(described.pop("$defs", {}))
        schemas[body.__name__] = described
