"""The artifacts of each model: what each promises and was fitted on, which decide, who changed that and why; and, for
those who may, a button for each change. A change takes a reason that somebody types, and stays on record."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from demur.calibration_store.artifact import ArtifactRefused
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.model_jobs import TooManyJobs
from demur.calibration_store.standing import RoleRefused
from demur.calibration_store.store import NothingToRollBack
from demur.serve.config.access import Scope
from demur.serve.contract.artifact_wire import CanaryRequest, JobRequest
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.fitting.artifact_service import ArtifactService, UnknownArtifact
from demur.serve.web.errors import status_of
from demur.serve.web.front.site import FrontSite, Site, name_of
from demur.serve.web.shared.doors import may
from demur.serve.web.shared.look import root_of
from demur.serve.web.shared.storable import FormText
from demur.traffic.database import DatabaseUnavailable

T = TypeVar("T")

REFUSED = (
    InvalidRequest, UnknownArtifact, NothingToRollBack, RoleRefused, TooManyJobs, ArtifactRefused,
    ArtifactsUnreachable, DatabaseUnavailable,
)  # fmt: skip
"""What a person is told in a sentence."""

LONGEST_WHY = 1_000

router = APIRouter(include_in_schema=False)


@router.get("/models/")
async def models_page(
    request: Request, site: Site, model: str = "", a: str = "", b: str = "", done: bool = False
) -> Response:
    """Every model, or one of them; with `a` and `b` two of its artifacts beside each other, and with `a` alone that one
    beside the configuration."""
    return await _shown(request, site, model, a=a, b=b, done=done)


@router.post("/models/{model}/promote")
async def promote(request: Request, site: Site, model: str, artifact: FormText, why: FormText = "") -> Response:
    return await _changed(
        request, site, model, lambda service, by: service.promote(model, artifact, by=by, why=_why(why))
    )


@router.post("/models/{model}/rollback")
async def rollback(request: Request, site: Site, model: str, why: FormText = "") -> Response:
    return await _changed(request, site, model, lambda service, by: service.rollback(model, by=by, why=_why(why)))


@router.post("/models/{model}/shadow")
async def shadow(request: Request, site: Site, model: str, artifact: FormText = "", why: FormText = "") -> Response:
    """Without an artifact it ends the shadow."""
    named = artifact or None
    return await _changed(request, site, model, lambda service, by: service.shadow(model, named, by=by, why=_why(why)))


@router.post("/models/{model}/canary")
async def canary(
    request: Request,
    site: Site,
    model: str,
    artifact: FormText = "",
    why: FormText = "",
    share: Annotated[str, Form()] = "",
    low: Annotated[str, Form()] = "",
    high: Annotated[str, Form()] = "",
) -> Response:
    """Without an artifact it ends the canary."""

    def change(service: ArtifactService, by: str) -> Mapping[str, Any]:
        told: dict[str, Any] = {"artifact": artifact or None, "why": _why(why)}
        if artifact:
            told |= {"share": _number("share", share), "held_between": [_number("low", low), _number("high", high)]}
        try:
            asked = CanaryRequest.model_validate(told)
        except ValidationError:
            raise InvalidRequest("share: a number between 0 and 1; and so are the bounds of what it may hold") from None
        return service.canary(model, asked, by=by)

    return await _changed(request, site, model, change)


@router.post("/models/{model}/replay")
async def replay(request: Request, site: Site, model: str, artifact: FormText) -> Response:
    """Ask what an artifact would have decided about what is logged."""
    asked = JobRequest(kind="replay", artifact=artifact)
    return await _changed(request, site, model, lambda service, by: service.ask(model, asked, by=by))


async def _changed(
    request: Request, site: FrontSite, model: str, change: Callable[[ArtifactService, str], Mapping[str, Any]]
) -> Response:
    """Do it in the name of whoever asks, and lead back to the page of the model; or say there why it was refused."""
    if model not in site.config.models:
        return await _shown(request, site, model, status=404)
    try:
        await asyncio.to_thread(change, site.artifacts, name_of(request) or "somebody")
    except REFUSED as error:
        return await _shown(request, site, model, refusal=str(error), status=status_of(error))
    query = urlencode({"model": model, "done": "true"})
    return RedirectResponse(f"{root_of(request)}/models/?{query}", status_code=303)


async def _shown(
    request: Request,
    site: FrontSite,
    model: str,
    *,
    a: str = "",
    b: str = "",
    refusal: str = "",
    done: bool = False,
    status: int = 200,
) -> Response:
    names = [name for name in site.config.models if not model or name == model]
    health = await site.handler.inquiries.health()
    cards = await asyncio.to_thread(lambda: [_card(site, name, health["models"][name]) for name in names])
    diff: Mapping[str, Any] | None = None
    if a and model in site.config.models:
        try:
            diff = await asyncio.to_thread(site.artifacts.diff, model, a, b if b and b != a else None)
        except REFUSED as error:
            refusal = refusal or str(error)
    return site.page(
        request, "models.html", status=status, here="Models", cards=cards, only=model, diff=diff,
        acts=may(request, Scope.ADMIN), refusal=refusal, done=done,
    )  # fmt: skip


def _card(site: FrontSite, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """What the page tells of one model; what cannot be read says why."""
    card: dict[str, Any] = {"name": name, "state": state, "artifacts": [], "changes": [], "jobs": [], "trouble": []}
    parts: dict[str, Callable[[], Any]] = {
        "listed": lambda: site.artifacts.listed(name),
        "changes": lambda: site.artifacts.history(name)["changes"][::-1],
        "jobs": lambda: site.artifacts.jobs(name)["jobs"][:10],
    }
    for part, read in parts.items():
        try:
            card[part] = read()
        except REFUSED as error:
            card["trouble"].append(str(error))
    if listed := card.get("listed"):
        card |= {"artifacts": listed["artifacts"], "refused_fit": listed["refused_fit"]}
    return card


def _why(text: str) -> str:
    told = text.strip()
    if not told:
        raise InvalidRequest("why: type a reason; it stays in the history")
    if len(told) > LONGEST_WHY:
        raise InvalidRequest(f"why: the reason has more than {LONGEST_WHY:,} characters")
    return told


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(f"{name}: {text!r} is no number; write one such as 0.1") from None
