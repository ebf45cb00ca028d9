"""The overview for those who lead reviews: how the queue fares, and where people differ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal

import orjson
from fastapi import FastAPI, Request, Response
from pydantic import ConfigDict, with_config

from demur.audit.opinions import (
    AgreementRate,
    LabelDisagreement,
    OverturnRate,
    ReviewersChecked,
    agreement_of,
    agreement_of_checks,
    label_disagreements,
    overturn_rate,
    overturn_rates,
    reviewers_checked,
)
from demur.review import cases, disagreement, skips, statistics
from demur.review.cases import Backlog
from demur.review.disagreement import PersonsWork
from demur.review.item import ReviewerScope
from demur.review.pace import pace
from demur.review.skips import SkippedByAll
from demur.review.statistics import BacklogCurve, Flow, StatisticsWindow
from demur.serve.config.review import ReviewConfig
from demur.serve.web.shared.quantities import date, duration, percent
from demur.traffic.database import Connection, Database

Span = Literal["24h", "7d", "30d"]

SPANS: dict[Span, timedelta] = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sights:
    """Agreement on cases where all had seen the prediction, where nobody had, and altogether."""

    blind: AgreementRate
    seen: AgreementRate
    all: AgreementRate


@dataclass(frozen=True, kw_only=True, slots=True)
class Overturns:
    """How often people said otherwise than the model."""

    by_confidence: list[OverturnRate]
    blind: OverturnRate
    seen: OverturnRate
    all: OverturnRate


@with_config(ConfigDict(use_attribute_docstrings=True))
@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """What a lead can know of a window of time. In JSON, null stands for what is not known, or will never be."""

    window: Span
    since: datetime
    until: datetime
    model: str | None
    """None: all that this person may see."""

    models: list[str]
    """Those of which there is something to see."""

    now: Backlog
    hours_of_work: float
    """Until somebody has resolved what waits, at the pace of the last hour, or since the first case came within it: the
    figure of the queue. Infinite where nothing was resolved in it."""

    total: Flow
    by_model: list[Flow]
    backlog: BacklogCurve
    overturned: Overturns
    several_opinions: Sights
    """Of cases about which several people spoke."""

    re_reviews: Sights
    """Of cases that somebody looked at once more, blindly, by whether those before had seen the prediction."""

    labels: list[LabelDisagreement]
    reviewers: ReviewersChecked
    people: list[PersonsWork]
    skipped: int
    """Cases that somebody skipped in the window; two people who skip one are two."""

    skipped_by_all: list[SkippedByAll]
    """How things stand now, whatever the window."""


def overview_of(
    connection: Connection,
    scope: ReviewerScope,
    span: Span,
    model: str | None = None,
    people: Mapping[str, ReviewerScope] = MappingProxyType({}),
) -> Overview:
    """Return what there is to know of the window that ends now, of one model or of all in the scope. `people`: those
    who are named in the configuration, and what each may see and do."""
    until = statistics.now(connection)
    window = StatisticsWindow(since=until - SPANS[span], until=until, scope=narrowed(scope, model))
    total, *by_model = statistics.flows(connection, window)
    everything = window if model is None else StatisticsWindow(since=window.since, until=until, scope=scope)
    seen = by_model if model is None else statistics.flows(connection, everything)[1:]
    overturned = disagreement.overturned(connection, window)
    units = disagreement.together(connection, window)
    checks = disagreement.checked(connection, window)
    overall = overturn_rate(overturned)
    now = cases.backlog(connection, window.scope)
    worked = disagreement.work(connection, window)
    return Overview(
        window=span,
        since=window.since,
        until=until,
        model=model,
        models=[flow.model for flow in seen if flow.model is not None],
        now=now,
        hours_of_work=pace(connection, window.scope).hours_for(now.free),
        total=total,
        by_model=by_model,
        backlog=statistics.backlog_curve(connection, window),
        overturned=Overturns(
            by_confidence=overturn_rates(overturned),
            blind=overturn_rate(row for row in overturned if not row.saw_prediction),
            seen=overturn_rate(row for row in overturned if row.saw_prediction),
            all=overall,
        ),
        several_opinions=Sights(
            blind=agreement_of([unit for unit in units if unit.saw_prediction is False]),
            seen=agreement_of([unit for unit in units if unit.saw_prediction is True]),
            all=agreement_of(units),
        ),
        re_reviews=Sights(
            blind=agreement_of_checks([check for check in checks if not check.saw_prediction]),
            seen=agreement_of_checks([check for check in checks if check.saw_prediction]),
            all=agreement_of_checks(checks),
        ),
        labels=label_disagreements(units),
        reviewers=reviewers_checked(checks, overall),
        people=worked,
        skipped=sum(person.skipped for person in worked),
        skipped_by_all=skips.skipped_by_all(connection, window.scope, people),
    )


def narrowed(scope: ReviewerScope, model: str | None) -> ReviewerScope:
    """The part of a scope that is one model's."""
    if model is None:
        return scope
    inside = scope.models is None or model in scope.models
    return ReviewerScope(models=(model,) if inside else (), groups=scope.groups, adjudicates=scope.adjudicates)


def add_overview_routes(
    app: FastAPI,
    review: ReviewConfig,
    database: Database,
    *,
    lead_of: Callable[[Request], str],
    page: Callable[..., Response],
) -> None:
    """Add `/overview` and `/v1/overview` to the console. `lead_of` raises for whoever does not lead reviews; `page`
    renders a template."""

    def seen_by(name: str, span: Span, model: str | None) -> Overview:
        scope = review.scope_of(name)
        assert scope is not None, "whoever leads is among the people"
        with database.transaction() as connection:
            people = {name: person.scope for name, person in review.people.items()}
            return overview_of(connection, scope, span, model, people)

    @app.get("/overview", include_in_schema=False)
    def show(request: Request, window: str = "24h", model: str = "") -> Response:
        span: Span = next((span for span in SPANS if span == window), "24h")
        from demur.serve.web.review.overview_plots import plots_of  # brings Matplotlib, for which no start should wait

        found = seen_by(lead_of(request), span, model or None)
        return page(
            request,
            "overview.html",
            overview=found,
            plots=plots_of(found.backlog, found.overturned.by_confidence, found.labels, found.by_model),
            spans=list(SPANS),
            led=led(found.overturned),
            duration=duration,
            percent=percent,
            growth=growth,
            date=date,
        )

    @app.get(
        "/v1/overview",
        response_model=Overview,
        summary="How the queue fares, and where people differ",
        tags=["overview"],
    )
    def numbers(request: Request, window: Span = "24h", model: str | None = None) -> Response:
        """For those who lead reviews: the backlog over time, waits, throughput, how often people overturn the model
        at each confidence, how far they agree. `null` is what is not known, or will never be."""
        body = orjson.dumps(seen_by(lead_of(request), window, model))  # writes NaN and infinity as null
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})


def say_unknown(schemas: dict[str, Any], name: str = "Overview") -> None:
    """Change the schemas of `Overview` in an OpenAPI document: each number may be null, as JSON has no NaN."""
    for told in schemas[name]["properties"].values():
        if told.get("type") == "number":
            told["anyOf"] = [{"type": told.pop("type")}, {"type": "null"}]
        for part in (told, told.get("items", {}), *told.get("anyOf", [])):
            if "$ref" in part:
                say_unknown(schemas, part["$ref"].rpartition("/")[2])


def led(found: Overturns) -> bool:
    """Whether people overturn the model less often when they see what it says, beyond chance."""
    return found.seen.upper < found.blind.lower


def growth(flow: Flow) -> str:
    """Whether the queue grew in the window, in words."""
    if flow.ended == flow.arrived:
        return "as many came as were done"
    return "more came than were done" if flow.ended < flow.arrived else "fewer came than were done"
