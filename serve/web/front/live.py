"""What is decided now: a page that follows the last decisions of each model, and the numbers behind it."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from demur.policies.decision import Action
from demur.review.load import open_cases
from demur.serve.contract import wire
from demur.serve.contract.live_wire import LiveView
from demur.serve.web.front.site import FrontSite, Site
from demur.serve.web.native.described import problems
from demur.traffic.latest import LatestDecision, latest_decisions

WINDOW = timedelta(minutes=10)
MOST = 1_000
"""So many decisions of each model are looked at, and none that is older than the window: a look costs the same whatever
the traffic."""

LISTED = 50
BINS = 20
"""Parts of equal width into which confidence is counted, from 0 to 1."""

LOOK_SECONDS = 1.0
"""Everybody who watches within this time sees one and the same look."""

COUNTED = 10_000
"""Open cases are counted up to here."""

router = APIRouter()

Shown = Literal["answer", "review", "abstain"]


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What was seen at one moment."""

    at: datetime
    decisions: dict[str, list[LatestDecision]]
    limits: dict[str, float | None]
    """The confidence from which each model answers; None where its rule has no such limit."""

    open_cases: int


class Lookout:
    """Looks at the log for all who watch, once at a time."""

    def __init__(self, site: FrontSite) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._seen: Glimpse | None = None
        self._seen_at = -LOOK_SECONDS

    def look(self) -> Glimpse:
        """Return what there is now, or was a moment ago."""
        with self._lock:
            if self._seen is None or monotonic() - self._seen_at >= LOOK_SECONDS:
                self._seen = self._fresh()
                self._seen_at = monotonic()
            return self._seen

    def _fresh(self) -> Glimpse:
        now, models = self._site.clock(), self._site.config.models
        limits = {model: self._site.artifacts.limit_in_force(model) for model in models}
        with self._site.database.transaction() as connection:
            decisions = {model: latest_decisions(connection, model, since=now - WINDOW, most=MOST) for model in models}
            return Glimpse(now, decisions, limits, open_cases(connection, at_most=COUNTED))


@router.get(
    "/v1/live",
    response_model=LiveView,
    responses=problems(401, 403, 422, 503),
    summary="What was decided in the last minutes",
    tags=["How it stands"],
)
async def live(
    request: Request,
    site: Site,
    model: Annotated[str | None, Query(max_length=200, description="Decisions of this model alone.")] = None,
    action: Annotated[Shown | None, Query(description="Decisions of this kind alone.")] = None,
) -> Response:
    look = await asyncio.to_thread(_lookout(request, site).look)
    chosen = [
        decision
        for name, decisions in look.decisions.items()
        if model is None or name == model
        for decision in decisions
        if action is None or decision.action == action
    ]
    newest = sorted(chosen, key=lambda one: one.created_at, reverse=True)[:LISTED]
    view = {
        "at": look.at.astimezone(UTC).isoformat(),
        "open_cases": look.open_cases,
        "models": {name: summary(found, look.at, look.limits[name]) for name, found in look.decisions.items()},
        "decisions": [_decision_json(one) for one in newest],
    }
    return Response(wire.dump(view), media_type="application/json", headers={"Cache-Control": "no-store"})


@router.get("/live/", include_in_schema=False)
async def live_page(request: Request, site: Site) -> Response:
    return site.page(request, "live.html", here="Live", models=list(site.config.models), most=MOST)


def summary(decisions: Sequence[LatestDecision], now: datetime, limit: float | None) -> dict[str, Any]:
    """How the decisions went, the newest first: `LiveModel`."""
    n = len(decisions)
    if n == 0:
        return {
            "n": 0, "seconds": WINDOW.total_seconds(), "per_second": 0.0, "held_share": None,
            "milliseconds": {"p50": None, "p95": None}, "confidence": [], "limit": limit,
        }  # fmt: skip
    seconds = (now - decisions[-1].created_at).total_seconds() if n == MOST else WINDOW.total_seconds()
    held = np.array([one.action != Action.ANSWER.value for one in decisions])
    p50, p95 = np.percentile([one.milliseconds for one in decisions], [50, 95])
    return {
        "n": n,
        "seconds": round(seconds, 3),
        "per_second": round(_rate(decisions, now), 3),
        "held_share": float(held.mean()),
        "milliseconds": {"p50": round(float(p50), 3), "p95": round(float(p95), 3)},
        "confidence": _histogram(decisions, held),
        "limit": limit,
    }


def _rate(decisions: Sequence[LatestDecision], now: datetime) -> float:
    """Decisions a second: of the last ten seconds where these are all there, else over those that were looked at."""
    recent = now - timedelta(seconds=10)
    if decisions[-1].created_at > recent and len(decisions) == MOST:
        return len(decisions) / max((now - decisions[-1].created_at).total_seconds(), 1e-3)
    return sum(one.created_at > recent for one in decisions) / 10


def _histogram(decisions: Sequence[LatestDecision], held: Any) -> list[dict[str, int]]:
    known = np.array([one.confidence is not None for one in decisions])
    values = np.array([one.confidence for one in decisions if one.confidence is not None], dtype=float)
    edges = np.linspace(0, 1, BINS + 1)
    of_held, _ = np.histogram(values[held[known]], edges)
    of_answered, _ = np.histogram(values[~held[known]], edges)
    return [{"answered": int(answered), "held": int(kept)} for answered, kept in zip(of_answered, of_held, strict=True)]


def _decision_json(one: LatestDecision) -> dict[str, Any]:
    return {
        "id": str(one.id),
        "at": one.created_at.astimezone(UTC).isoformat(),
        "model": one.model,
        "artifact": one.artifact,
        "group": one.group,
        "prediction": one.prediction,
        "confidence": one.confidence,
        "action": one.action,
        "reason": one.reason,
        "milliseconds": round(one.milliseconds, 3),
    }


def _lookout(request: Request, site: FrontSite) -> Lookout:
    """The one of this application."""
    state = request.app.state
    if not hasattr(state, "lookout"):
        state.lookout = Lookout(site)
    found: Lookout = state.lookout
    return found
