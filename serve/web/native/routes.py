"""The native API of a gateway: one function for each route. Everything else is the handler's."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from demur.serve.access.caller import access_is_on, caller_of
from demur.serve.contract import wire
from demur.serve.contract.hosts import UnknownModel
from demur.serve.gateway.outcome_writer import OutcomeOrError
from demur.serve.web.errors import problem_json, status_of
from demur.serve.web.native.described import problems
from demur.serve.web.native.fast_path import FastReply
from demur.serve.web.native.headers import IdempotencyKey, RequestTimeout
from demur.serve.web.native.parts import body_of, fast_path_of, handler_of
from demur.serve.web.native.upload_schema import FILE_SCHEMA, FILES_SCHEMA, upload_schema
from demur.serve.web.shared.bodies import takes
from demur.serve.web.shared.leaving import CLIENT_CLOSED_REQUEST, CallerGone, unless_gone
from demur.serve.web.shared.visitor import NoReviewer, visitor_of

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

router = APIRouter()


@router.post(
    "/v1/predict",
    tags=["Predict"],
    response_model=wire.Prediction,
    responses=problems(400, 401, 403, 404, 408, 409, 413, 422, 429, 502, 503, 504),
    openapi_extra=takes(wire.PredictRequest, form=upload_schema(FILE_SCHEMA)),
    summary="Predict, or say that a person should look",
)
async def predict(request: Request, _key: IdempotencyKey = None, _timeout: RequestTimeout = None) -> Response:
    return _as_response(await fast_path_of(request).predict(request.scope, request.receive))


@router.post(
    "/v1/predict/batch",
    tags=["Predict"],
    response_model=wire.BatchResponse,
    responses=problems(400, 401, 403, 408, 409, 413, 422, 429, 503, 504),
    openapi_extra=takes(wire.BatchRequest, form=upload_schema(FILES_SCHEMA)),
    summary="Predict up to 1,024 inputs, each by itself",
)
async def predict_batch(request: Request, _key: IdempotencyKey = None, _timeout: RequestTimeout = None) -> Response:
    return _as_response(await fast_path_of(request).predict_batch(request.scope, request.receive))


@router.get(
    "/v1/predictions/{id}",
    tags=["What became of it"],
    response_model=wire.PredictionView,
    responses=problems(401, 403, 404, 422, 429, 503),
    summary="What became of a prediction",
)
async def prediction(id: UUID, request: Request, wait: Wait = 0) -> Response:
    if wait == 0:
        return _json(await handler_of(request).inquiries.prediction(id, caller=caller_of(request.scope)))
    waiting = handler_of(request).inquiries.prediction(id, wait_seconds=wait, caller=caller_of(request.scope))
    try:
        return _json(await unless_gone(request, waiting))
    except CallerGone:
        return Response(status_code=CLIENT_CLOSED_REQUEST)


@router.post(
    "/v1/predictions/{id}/outcome",
    tags=["What became of it"],
    status_code=201,
    response_model=wire.OutcomeView,
    responses=problems(400, 401, 403, 404, 408, 409, 413, 422, 429, 503),
    openapi_extra=takes(wire.OutcomeRequest),
    summary="Tell the truth about a prediction",
)
async def add_outcome(id: UUID, request: Request, key: IdempotencyKey = None) -> Response:
    inquiries = handler_of(request).inquiries
    done = await inquiries.add_outcome(id, await body_of(request), caller_of(request.scope), key)
    headers = {"Idempotent-Replay": "true"} if done.replayed else None
    return Response(wire.dump(wire.outcome_json(done.outcome)), 201, headers, "application/json")


@router.post(
    "/v1/outcomes/batch",
    tags=["What became of it"],
    response_model=wire.OutcomesResponse,
    responses=problems(400, 401, 403, 408, 409, 413, 422, 429, 503),
    openapi_extra=takes(wire.OutcomesRequest),
    summary="Tell the truth about up to 1,024 predictions, each by itself",
)
async def add_outcomes(request: Request, key: IdempotencyKey = None) -> Response:
    done = await handler_of(request).inquiries.add_outcomes(await body_of(request), caller_of(request.scope), key)
    return _json({"results": [_outcome_result(result) for result in done]})


@router.delete(
    "/v1/predictions/{id}/payload",
    tags=["What became of it"],
    response_model=wire.ErasedView,
    responses=problems(404, 422, 503),
    summary="Erase the input and the reply of a prediction; its record stays",
)
async def erase(id: UUID, request: Request) -> Response:
    return _json(
        await handler_of(request).inquiries.erase(id, by_whom=_name_of(request), caller=caller_of(request.scope))
    )


@router.get(
    "/healthz",
    tags=["How it stands"],
    response_model=wire.Health,
    responses={503: {"model": wire.Health, "description": "No model serves, or the database is away"}},
    summary="Whether predictions can be made and recorded",
)
async def healthz(request: Request, strict: Strict = None) -> Response:
    health = await handler_of(request).inquiries.health()
    well = health["status"] == "ok" if strict is not None else health["status"] != "not ok"
    if access_is_on(request.scope) and caller_of(request.scope) is None:
        health = {"status": health["status"]}
    return _json(health, status=200 if well else 503)


@router.get(
    "/healthz/{model}",
    tags=["How it stands"],
    response_model=wire.ModelHealth,
    responses={**problems(404), 503: {"model": wire.ModelHealth, "description": "It gives no predictions now"}},
    summary="Whether one model serves",
)
async def model_healthz(model: str, request: Request) -> Response:
    stranger = access_is_on(request.scope) and caller_of(request.scope) is None
    try:
        health = await handler_of(request).inquiries.model_health(model)
    except UnknownModel:
        if stranger:  # who is not told which there are
            raise UnknownModel("there is no such model") from None
        raise
    shown = {"status": health["status"]} if stranger else health
    return _json(shown, status=200 if health["status"] == "ok" else 503)


def _name_of(request: Request) -> str:
    """Who asks; `somebody` where nobody need say."""
    try:
        return visitor_of(request)
    except NoReviewer:
        return "somebody"


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
