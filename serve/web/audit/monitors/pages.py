"""The live page of the monitors, the same as JSON, and how a person undoes an alarm."""

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import Field

from demur.audit.monitors import feeding
from demur.audit.monitors.wording import (
    expected_sentence,
    percent,
    risk_sentence,
    traffic_sentence,
    unlike_sentence,
    waiting_sentence,
)
from demur.audit.state.alarms import Alarm, OnAlarm
from demur.review.queue import NotYours
from demur.serve.access.names import as_name
from demur.serve.config.file import ModelConfig
from demur.serve.contract.alarm_wire import AlarmView, alarm_json
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.wire import Body, Word, parse
from demur.serve.web.audit.monitors.plots import change_picture, interval_picture, wealth_picture
from demur.serve.web.audit.monitors.view import MonitorsPage, MonitorsView, monitors_json, sight
from demur.serve.web.audit.site import Site, name_of
from demur.serve.web.shared.bodies import takes, whole_body
from demur.serve.web.shared.look import root_of
from demur.serve.web.shared.storable import FormText
from demur.serve.web.shared.visitor import visitor_of

LONGEST_REASON = 1000

KINDS = {
    "risk": "More answers are wrong than was promised",
    "confidence": "The traffic has changed: confidences",
    "held": "The traffic has changed: share not answered",
    "audit": "A scheduled audit found a promise broken",
}


class UndoAlarmRequest(Body):
    why: Word = Field(description="Why it is safe to go on as before; kept in the history.")


def add_monitor_routes(app: FastAPI, site: Site) -> None:
    """Add `/monitors` and `/v1/monitors` to the auditors' application.

    Reading needs no name. Whoever undoes an alarm says who they are, and leads reviews where it is configured who does.
    """
    config, database = site.config, site.database
    watched = [name for name, model in config.models.items() if model.watched]
    unwatched = {name: why_unwatched(model) for name, model in config.models.items() if not model.watched}

    def look() -> MonitorsPage:
        with database.transaction() as connection:
            return sight(connection, watched)

    def undo(alarm_id: int, by: str, why: str) -> Alarm:
        if not config.review.leads(by):
            raise NotYours("only those who lead reviews (`review.people`) undo an alarm")
        reason = " ".join(why.split())
        if not reason or len(reason) > LONGEST_REASON or "\0" in reason:
            raise InvalidRequest(f"why: say in 1 to {LONGEST_REASON:,} characters why it is safe to go on as before")
        with database.transaction() as connection:
            return feeding.undo(connection, alarm_id, by=by, why=reason)

    @app.get("/v1/monitors", response_model=MonitorsView, summary="Where all monitors stand, and which alarms are on")
    def tell() -> Response:
        return JSONResponse(monitors_json(look(), unwatched))

    async def read_body(request: Request) -> bytes:
        return await whole_body(request, config.limits.body_bytes)

    @app.post(
        "/v1/alarms/{id}/undo",
        response_model=AlarmView,
        openapi_extra=takes(UndoAlarmRequest),
        summary="Undo an alarm: what it does ends",
    )
    def undo_as_told(request: Request, id: int, content: Annotated[bytes, Depends(read_body)]) -> Response:
        return JSONResponse(alarm_json(undo(id, visitor_of(request), parse(UndoAlarmRequest, content).why)))

    @app.get("/monitors", include_in_schema=False)
    def show(request: Request) -> Response:
        seen = look()
        return site.page(
            request,
            "monitors.html",
            seen=seen,
            unseen=[name for name in watched if name not in {one.model for one in seen.standings}],
            unwatched=unwatched,
            looks={name: seen.looks.get(name) for name in watched},
            words={"kinds": KINDS, "does": does, "percent": percent, "number": number, "p": p_value},
            say={
                "expected": expected_sentence,
                "unlike": unlike_sentence,
                "risk": risk_sentence,
                "traffic": traffic_sentence,
                "waiting": waiting_sentence,
            },
            draw={"wealth": wealth_picture, "interval": interval_picture, "change": change_picture},
        )

    @app.post("/monitors/alarms/{id}/undo", include_in_schema=False)
    def undo_and_show(request: Request, id: int, why: FormText = "", name: FormText = "") -> Response:
        by = name_of(request) or as_name(name)
        if by is None:
            raise InvalidRequest("name: say who you are")
        undo(id, by, why)
        return RedirectResponse(f"{root_of(request)}/monitors", status_code=303)


def why_unwatched(model: ModelConfig) -> str:
    """Why no monitor watches a model."""
    if model.monitor is False:
        return "the configuration says `monitor: false`"
    return "none of its answers is checked by chance (`spot_check`), so nothing is known of their errors"


def does(alarm: Alarm) -> str:
    """What an alarm does while it is in force."""
    if alarm.action == OnAlarm.NOTIFY:
        return "It tells, and does nothing else."
    if alarm.action == OnAlarm.HOLD_ALL:
        return "It holds all answers."
    if alarm.floor is None:
        return "It was to hold the less sure answers; none is surer than enough of the others, so it holds all of them."
    return f"It holds answers below confidence {alarm.floor:.6g}."


def number(value: Any) -> str:
    """A number of a table, or a dash."""
    return "–" if value is None else f"{value:.3f}"


def p_value(value: float | None) -> str:
    if value is None:
        return "–"
    return "below 0.001" if value < 0.001 else f"{value:.3f}"
