"""Artifacts over HTTP: what was fitted, which of it decides, and work on them that takes long."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from fastapi import APIRouter, Request, Response

from demur.serve.access.caller import caller_of
from demur.serve.contract import artifact_wire, wire
from demur.serve.fitting.artifact_service import ArtifactService
from demur.serve.web.native.described import problems
from demur.serve.web.native.parts import body_of, parts_of
from demur.serve.web.shared.bodies import takes
from demur.serve.web.shared.visitor import NoReviewer, visitor_of

T = TypeVar("T", bound=wire.Body)

router = APIRouter(tags=["Models and artifacts"])

REFUSALS = problems(400, 401, 403, 404, 409, 413, 422, 503)


@router.get(
    "/v1/artifacts/{model}",
    response_model=artifact_wire.ArtifactList,
    responses=problems(401, 403, 404, 503),
    summary="What was fitted for a model, and which of it decides",
)
async def list_artifacts(model: str, request: Request) -> Response:
    return await _done(request, lambda service: service.listed(model))


@router.get(
    "/v1/artifacts/{model}/{artifact}",
    responses=problems(401, 403, 404, 409, 503),
    summary="Everything that an artifact tells about itself",
)
async def show_artifact(model: str, artifact: str, request: Request) -> Response:
    return await _done(request, lambda service: service.manifest(model, artifact))


@router.get(
    "/v1/artifacts/{model}/{artifact}/diff",
    response_model=artifact_wire.ArtifactDiff,
    responses=problems(401, 403, 404, 409, 503),
    summary="Two artifacts side by side, or one beside what is configured now",
)
async def diff_artifacts(model: str, artifact: str, request: Request, to: str | None = None) -> Response:
    """`to` is the other artifact; without it the settings that are configured now are compared."""
    return await _done(request, lambda service: service.diff(model, artifact, to))


@router.get(
    "/v1/releases/{model}",
    response_model=artifact_wire.History,
    responses=problems(401, 403, 404, 503),
    summary="Who changed which artifact decides, when and why",
)
async def show_history(model: str, request: Request) -> Response:
    return await _done(request, lambda service: service.history(model))


@router.post(
    "/v1/releases/{model}/promote",
    response_model=artifact_wire.ChangeView,
    responses=REFUSALS,
    openapi_extra=takes(artifact_wire.PromoteRequest),
    summary="Put an artifact in force",
)
async def promote(model: str, request: Request) -> Response:
    asked, by = await _asked(request, artifact_wire.PromoteRequest), _name_of(request)
    return await _done(request, lambda service: service.promote(model, asked.artifact, by=by, why=asked.why))


@router.post(
    "/v1/releases/{model}/rollback",
    response_model=artifact_wire.ChangeView,
    responses=REFUSALS,
    openapi_extra=takes(artifact_wire.RollbackRequest),
    summary="Put the artifact in force again that was in force before",
)
async def rollback(model: str, request: Request) -> Response:
    asked, by = await _asked(request, artifact_wire.RollbackRequest), _name_of(request)
    return await _done(request, lambda service: service.rollback(model, by=by, why=asked.why))


@router.post(
    "/v1/releases/{model}/shadow",
    response_model=artifact_wire.ChangeView,
    responses=REFUSALS,
    openapi_extra=takes(artifact_wire.ShadowRequest),
    summary="Let an artifact decide beside the one in force, or end that",
)
async def shadow(model: str, request: Request) -> Response:
    asked, by = await _asked(request, artifact_wire.ShadowRequest), _name_of(request)
    return await _done(request, lambda service: service.shadow(model, asked.artifact, by=by, why=asked.why))


@router.post(
    "/v1/releases/{model}/canary",
    response_model=artifact_wire.ChangeView,
    responses=REFUSALS,
    openapi_extra=takes(artifact_wire.CanaryRequest),
    summary="Let an artifact decide a share of the traffic, or end that",
)
async def canary(model: str, request: Request) -> Response:
    asked, by = await _asked(request, artifact_wire.CanaryRequest), _name_of(request)
    return await _done(request, lambda service: service.canary(model, asked, by=by))


@router.post(
    "/v1/releases/{model}/jobs",
    status_code=202,
    response_model=artifact_wire.JobView,
    responses=problems(400, 401, 403, 404, 413, 422, 429, 503),
    openapi_extra=takes(artifact_wire.JobRequest),
    summary="Fit on logged traffic, compare two artifacts, or replay traffic",
)
async def ask_job(model: str, request: Request) -> Response:
    asked, by = await _asked(request, artifact_wire.JobRequest), _name_of(request)
    return await _done(request, lambda service: service.ask(model, asked, by=by), status=202)


@router.get(
    "/v1/releases/{model}/jobs",
    response_model=artifact_wire.JobList,
    responses=problems(401, 403, 404, 503),
    summary="The latest jobs of a model",
)
async def list_jobs(model: str, request: Request) -> Response:
    return await _done(request, lambda service: service.jobs(model))


@router.get(
    "/v1/jobs/{id}",
    response_model=artifact_wire.JobView,
    responses=problems(401, 403, 404, 422, 503),
    summary="How far a job has come, and what came of it",
)
async def show_job(id: UUID, request: Request) -> Response:
    return await _done(request, lambda service: service.job(id))


async def _asked(request: Request, kind: type[T]) -> T:
    return wire.parse(kind, await body_of(request))


async def _done(request: Request, work: Callable[[ArtifactService], Any], *, status: int = 200) -> Response:
    """Do some work in a thread, because the store may be on another machine, if the caller may ask for it."""
    caller = caller_of(request.scope)
    if caller is not None and (model := request.path_params.get("model")) is not None:
        caller.check_model(model)
    content = await asyncio.to_thread(work, parts_of(request).artifacts)
    if caller is not None and "model" in content:
        caller.check_model(content["model"])  # a job is asked for by its id
    return Response(wire.dump(content), status, media_type="application/json")


def _name_of(request: Request) -> str:
    try:
        return visitor_of(request)
    except NoReviewer:
        return "somebody"
