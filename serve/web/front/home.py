"""What stands at `/`: for people where things stand with each model, for programs the paths of what there is."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from demur.audit.state import reports
from demur.audit.state.alarms import Alarm, in_force
from demur.audit.state.reports import Report
from demur.review.progress import shelves
from demur.serve.access.caller import access_is_on, caller_of
from demur.serve.config.access import Scope
from demur.serve.web.front.hours_line import hours_line
from demur.serve.web.front.site import FrontSite, Site, name_of
from demur.serve.web.shared.doors import may
from demur.serve.web.shared.look import root_of
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.decision_counts import DecisionCounts, last_hours

PLACES = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "health": "/healthz",
    "review": "/review/",
    "audit": "/audit/",
}

router = APIRouter()


@dataclass
class ModelCard:
    """How it stands with one model, as far as whoever asks may know."""

    name: str
    status: str
    artifact: str | None
    detail: str
    differs: list[str]
    promises: list[str] = field(default_factory=list)
    hours: list[DecisionCounts] = field(default_factory=list)
    open_cases: int | None = None
    report: Report | None = None
    alarms: list[Alarm] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return sum(hour.answered for hour in self.hours)

    @property
    def held(self) -> int:
        return sum(hour.held + hour.abstained for hour in self.hours)

    @property
    def line(self) -> Any:
        return hours_line(self.hours)


@router.get("/", include_in_schema=False)
async def front_page(request: Request, site: Site) -> Response:
    """Show people where things stand; tell everybody else the paths of what there is."""
    if "text/html" not in request.headers.get("accept", ""):
        root = root_of(request)
        return JSONResponse({"service": "demur", **{name: f"{root}{path}" for name, path in PLACES.items()}})
    health = await site.handler.inquiries.health()
    stranger = access_is_on(request.scope) and caller_of(request.scope) is None
    cards = [] if stranger else await asyncio.to_thread(_cards, request, site, health)
    return site.page(request, "home.html", health=health, stranger=stranger, cards=cards)


def _cards(request: Request, site: FrontSite, health: Mapping[str, Any]) -> list[ModelCard]:
    """A card for each model that whoever asks may know of."""
    caller, watches = caller_of(request.scope), may(request, Scope.AUDIT)
    named = [name for name in site.config.models if caller is None or caller.models is None or name in caller.models]
    cards = {}
    for name in named:
        state = health["models"][name]
        cards[name] = ModelCard(name, state["status"], state["artifact"], state["detail"] or "", state["differs"])
    if watches:
        for name, card in cards.items():
            card.promises = site.artifacts.promises_in_force(name)
    with suppress(DatabaseUnavailable):  # the page says so itself
        _add_what_happened(request, site, cards, watches=watches)
    return list(cards.values())


def _add_what_happened(request: Request, site: FrontSite, cards: Mapping[str, ModelCard], *, watches: bool) -> None:
    review, name = site.config.review, name_of(request)
    with site.database.transaction() as connection:
        if watches:
            for model, hours in last_hours(connection, site.clock()).items():
                if model in cards:
                    cards[model].hours = hours
            for report in reports.latest(connection):
                if report.extent.model in cards:
                    cards[report.extent.model].report = report
            for alarm in in_force(connection):
                if alarm.model in cards:
                    cards[alarm.model].alarms.append(alarm)
        scope = review.scope_of(name) if may(request, Scope.REVIEW) else None
        if scope is not None:
            open_cases = Counter({model: 0 for model in cards if scope.models is None or model in scope.models})
            for shelf in shelves(connection, scope):
                open_cases[shelf.model] += shelf.open
            for model in cards.keys() & open_cases:
                cards[model].open_cases = open_cases[model]
