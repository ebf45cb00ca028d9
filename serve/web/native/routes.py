"""The gateway's HTTP: routes, status codes, the OpenAPI document. Everything else is the handler's."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Annotated, Any
from uuid import UUID

from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from demur.serve.access.caller import access_is_on, caller_of
from demur.serve.access.described import describe_access, describe_refusals
from demur.serve.access.needs import Needs
from demur.serve.config.pydantic_words import sentence
from demur.serve.contract import wire
from demur.serve.contract.hosts import UnknownModel
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.gateway.handler import Handler
from demur.serve.gateway.intake import CallerLeft
from demur.serve.gateway.outcome_writer import OutcomeOrError
from demur.serve.web.errors import STATUS, problem_json, retry_after, status_of
from demur.serve.web.inference_protocol import body as inference
from demur.serve.web.inference_protocol.routes import add_inference_routes
from demur.serve.web.native import fast_path as door
from demur.serve.web.native.deadline import PATTERN
from demur.serve.web.native.fast_path import FastPath, FastReply
from demur.serve.web.openai import request as chat
from demur.serve.web.openai.routes import add_chat_routes
from demur.serve.web.shared.browser_headers import add_browser_headers
from demur.serve.web.shared.cookies import PlainCookies
from demur.serve.web.shared.docs import add_docs
from demur.serve.web.shared.visitor import NoReviewer, visitor_of

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
        description="Makes a retry safe: the same key with the same body returns the stored answer and writes nothing;"
        " with another body it is a 409. 1 to 255 printable ASCII characters without blanks.",
        json_schema_extra={"pattern": wire.IDEMPOTENCY_KEY},
    ),
]

RequestTimeout = Annotated[
    str | None,
    Header(
        alias="X-Request-Timeout",
        description="For how many seconds you wait, such as 2.5. After that time you get a 504, and what has not been"
        " begun is not done. By default it is as long as the model takes, which is limited by `host.timeout_seconds`.",
        json_schema_extra={"pattern": PATTERN},
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

Strict = Annotated[
    str | None,
    Query(
        description="Say 503 also where only some of the models serve. Its value does not matter: `?strict` will do."
    ),
]

CLIENT_CLOSED_REQUEST = 499
"""What nobody receives any more; it is seen in logs."""


def gateway_app(
    handler: Handler,
    *,
    max_body_bytes: int,
    beside: AbstractAsyncContextManager[object] | None = None,
    needs: Needs | None = None,
) -> FastAPI:
    """The gateway as an ASGI application. `FastPath.before` answers predictions without it, and alike. `beside` is
    open for as long as it serves. `needs` says who gets in, for its document; None where everybody does."""
    hot = FastPath(handler, max_body_bytes=max_body_bytes)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with beside or nullcontext():
            yield
        await handler.close()

    app = FastAPI(title="demur", description=DESCRIPTION, version="1", docs_url=None, redoc_url=None, lifespan=lifespan)
    add_browser_headers(app)
    app.add_middleware(PlainCookies)
    add_docs(app)
    for kind in STATUS:
        app.add_exception_handler(kind, _as_problem)
    app.add_exception_handler(RequestValidationError, _as_invalid_request)
    app.add_exception_handler(HTTPException, _as_plain_problem)
    app.add_exception_handler(Exception, _as_problem)

    @app.post(
        "/v1/predict",
        response_model=wire.Prediction,
        responses=_problems(400, 401, 403, 404, 408, 409, 413, 422, 429, 502, 503, 504),
        openapi_extra=takes(wire.PredictRequest),
        summary="Predict, or say that a person should look",
    )
    async def predict(request: Request, _key: IdempotencyKey = None, _timeout: RequestTimeout = None) -> Response:
        return _as_response(await hot.predict(request.scope, request.receive))

    @app.post(
        "/v1/predict/batch",
        response_model=wire.BatchResponse,
        responses=_problems(400, 401, 403, 408, 409, 413, 422, 429, 503, 504),
        openapi_extra=takes(wire.BatchRequest),
        summary="Predict up to 1,024 inputs, each by itself",
    )
    async def predict_batch(request: Request, _key: IdempotencyKey = None, _timeout: RequestTimeout = None) -> Response:
        return _as_response(await hot.predict_batch(request.scope, request.receive))

    @app.get(
        "/v1/predictions/{id}",
        response_model=wire.PredictionView,
        responses=_problems(401, 403, 404, 422, 429, 503),
        summary="What became of a prediction",
    )
    async def prediction(id: UUID, request: Request, wait: Wait = 0) -> Response:
        if wait == 0:
            return _json(await handler.inquiries.prediction(id, caller=caller_of(request.scope)))
        waiting = handler.inquiries.prediction(id, wait_seconds=wait, caller=caller_of(request.scope))
        return await _unless_gone(request, waiting)

    @app.post(
        "/v1/predictions/{id}/outcome",
        status_code=201,
        response_model=wire.OutcomeView,
        responses=_problems(400, 401, 403, 404, 408, 409, 413, 422, 429, 503),
        openapi_extra=takes(wire.OutcomeRequest),
        summary="Tell the truth about a prediction",
    )
    async def add_outcome(id: UUID, request: Request, key: IdempotencyKey = None) -> Response:
        body = await whole_body(request, max_body_bytes)
        done = await handler.inquiries.add_outcome(id, body, caller_of(request.scope), key)
        headers = {"Idempotent-Replay": "true"} if done.replayed else None
        return Response(wire.dump(wire.outcome_json(done.outcome)), 201, headers, "application/json")

    @app.post(
        "/v1/outcomes/batch",
        response_model=wire.OutcomesResponse,
        responses=_problems(400, 401, 403, 408, 409, 413, 422, 429, 503),
        openapi_extra=takes(wire.OutcomesRequest),
        summary="Tell the truth about up to 1,024 predictions, each by itself",
    )
    async def add_outcomes(request: Request, key: IdempotencyKey = None) -> Response:
        body = await whole_body(request, max_body_bytes)
        done = await handler.inquiries.add_outcomes(body, caller_of(request.scope), key)
        return _json({"results": [_outcome_result(result) for result in done]})

    @app.delete(
        "/v1/predictions/{id}/payload",
        response_model=wire.ErasedView,
        responses=_problems(404, 422, 503),
        summary="Erase the input and the reply of a prediction; its record stays",
    )
    async def erase(id: UUID, request: Request) -> Response:
        return _json(await handler.inquiries.erase(id, by_whom=_name_of(request), caller=caller_of(request.scope)))

    @app.get(
        "/healthz",
        response_model=wire.Health,
        responses={503: {"model": wire.Health, "description": "No model serves, or the database is away"}},
        summary="Whether predictions can be made and recorded",
    )
    async def healthz(request: Request, strict: Strict = None) -> Response:
        health = await handler.inquiries.health()
        well = health["status"] == "ok" if strict is not None else health["status"] != "not ok"
        if access_is_on(request.scope) and caller_of(request.scope) is None:
            health = {"status": health["status"]}
        return _json(health, status=200 if well else 503)

    @app.get(
        "/healthz/{model}",
        response_model=wire.ModelHealth,
        responses={**_problems(404), 503: {"model": wire.ModelHealth, "description": "It gives no predictions now"}},
        summary="Whether one model serves",
    )
    async def model_healthz(model: str, request: Request) -> Response:
        stranger = access_is_on(request.scope) and caller_of(request.scope) is None
        try:
            health = await handler.inquiries.model_health(model)
        except UnknownModel:
            if stranger:  # who is not told which there are
                raise UnknownModel("there is no such model") from None
            raise
        shown = {"status": health["status"]} if stranger else health
        return _json(shown, status=200 if health["status"] == "ok" else 503)

    add_chat_routes(app, handler, lambda request: whole_body(request, max_body_bytes), IdempotencyKey, RequestTimeout)
    add_inference_routes(
        app, handler, lambda request: whole_body(request, max_body_bytes), IdempotencyKey, RequestTimeout
    )
    app.openapi = lambda: _openapi(app, needs)  # type: ignore[method-assign]
    return app


def _name_of(request: Request) -> str:
    """Who asks; `somebody` where nobody need say."""
    try:
        return visitor_of(request)
    except NoReviewer:
        return "somebody"


def problem_response(error: Exception) -> Response:
    status = status_of(error)
    seconds = retry_after(error)
    headers = None if seconds is None else {"Retry-After": str(seconds)}
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
    try:
        return await door.whole_body(request.receive, limit)
    except CallerLeft as left:
        raise ClientDisconnect from left


def _outcome_result(result: OutcomeOrError) -> dict[str, Any]:
    if isinstance(result, Exception):
        return {"status": status_of(result), "replayed": False, "outcome": None, "error": problem_json(result)}
    outcome = wire.outcome_json(result.outcome)
    return {"status": 201, "replayed": result.replayed, "outcome": outcome, "error": None}


def _as_response(reply: FastReply) -> Response:
    response = Response(reply.body, reply.status, media_type="application/json")
    response.raw_headers.extend(reply.headers)
    return response


def _json(value: Any, *, status: int = 200) -> Response:
    return Response(wire.dump(value), status, media_type="application/json")


async def _as_problem(request: Request, error: Exception) -> Response:
    if status_of(error) == 500:
        logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(error)


async def _as_invalid_request(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(in_words(error))


def in_words(error: RequestValidationError) -> InvalidRequest:
    """What does not fit in an address or its parameters."""
    return InvalidRequest(
        "; ".join(
            f"{'.'.join(map(str, e['loc'][1:]))}: {sentence(e['type'], e.get('ctx', {}))}" for e in error.errors()
        )
    )


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
    in_words = request.url.path.startswith("/v2/")  # where errors are texts
    return Response(
        wire.dump({"error": message if in_words else {"kind": kind, "message": message}}),
        error.status_code,
        error.headers,
        "application/json",
    )


MEANINGS = {
    400: "The body is not JSON",
    401: "Nobody knows who you are; the message says how to tell",
    403: "Your key may not do this, or is not for this model",
    404: "No such model or prediction",
    408: "The body did not come in time (`limits` in the configuration)",
    409: "The Idempotency-Key was used with another input",
    413: "More than `limits` in the configuration allows",
    422: "Something in the request does not fit; the message says what",
    429: "Your key has used up its rate; try again after `Retry-After` seconds",
    502: "The model's endpoint answers nobody until somebody mends something; waiting does not help",
    503: "Not possible right now; try again after `Retry-After` seconds",
    504: "The time of X-Request-Timeout is over, and nothing was answered",
}


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": wire.ProblemResponse, "description": MEANINGS[status]} for status in statuses}


def takes(body: type[wire.Body], *, required: bool = True) -> dict[str, Any]:
    """The body is parsed by hand, once, so the document is told by hand what it is."""
    reference = {"$ref": f"#/components/schemas/{body.__name__}"}
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": reference}}}}


def _openapi(app: FastAPI, needs: Needs | None) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = document["components"]["schemas"]
        taken_by_hand = (wire.PredictRequest, wire.BatchRequest, wire.OutcomeRequest, wire.OutcomesRequest)
        describe(schemas, *taken_by_hand, wire.OutcomeItem, chat.ChatRequest, inference.InferRequest)
        items = {"$ref": "#/components/schemas/PredictRequest"}  # each is checked by itself, not by the batch
        schemas["BatchRequest"]["properties"]["items"]["items"] = items
        schemas["OutcomesRequest"]["properties"]["items"]["items"] = {"$ref": "#/components/schemas/OutcomeItem"}
        describe_refusals(document)
        if needs is not None:
            describe_access(document, needs)
        app.openapi_schema = document
    return app.openapi_schema


def describe(schemas: dict[str, Any], *bodies: type[wire.Body]) -> None:
    """Add bodies that are parsed by hand to the schemas of a document."""
    for body in bodies:
        described = body.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(described.pop("$defs", {}))
        schemas[body.__name__] = described
