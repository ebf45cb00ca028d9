"""What other systems have been told, and what did not arrive: a page, and the same as JSON."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from pydantic import BaseModel, Field

from demur.review import outbox
from demur.review.outbox import Delivery, WebhookEvent
from demur.serve.web.review.site import problems
from demur.traffic.database import Database

MOST_SHOWN = 200


class WebhookView(BaseModel):
    """One address that is, or was, told of cases."""

    url: str
    events: list[WebhookEvent] = Field(description="None of them where it is no longer configured.")
    models: list[str] | None = Field(description="Null: all.")
    waiting: int = Field(description="Deliveries that have not arrived yet.")
    dead: int = Field(description="Deliveries that were given up.")
    oldest: datetime | None = Field(description="Since when the oldest of those that wait has been waiting.")


class DeadLetter(BaseModel):
    """A delivery that was given up."""

    id: UUID = Field(description="The `webhook-id` that the receiver was shown.")
    url: str
    event: WebhookEvent
    case: UUID | None = Field(description="Null where it is about an alarm.")
    alarm: int | None = Field(description="Null where it is about a case.")
    at: datetime = Field(description="When it happened of which it tells.")
    attempts: int
    dead_at: datetime
    last_error: str | None


class WebhooksView(BaseModel):
    webhooks: list[WebhookView]
    dead: list[DeadLetter] = Field(description=f"The latest {MOST_SHOWN} first.")


class SentAgain(BaseModel):
    id: UUID


def add_webhook_routes(
    app: FastAPI,
    database: Database,
    *,
    lead_of: Callable[[Request], str],
    page: Callable[..., Response],
) -> None:
    """Add `/webhooks` and `/v1/webhooks` to the console. `lead_of` raises for whoever does not lead reviews; `page`
    renders a template."""

    @app.get(
        "/v1/webhooks",
        response_model=WebhooksView,
        responses=problems(401, 403, 503),
        summary="What has not arrived at other systems, and what was given up, for those who lead",
    )
    def list_webhooks(request: Request) -> WebhooksView:
        lead_of(request)
        return seen(database)

    @app.post(
        "/v1/webhooks/deliveries/{id}/again",
        status_code=202,
        response_model=SentAgain,
        responses=problems(401, 403, 404, 422, 503),
        summary="Send what was given up again, for those who lead",
    )
    def send_again(request: Request, id: UUID) -> Response:
        lead_of(request)
        with database.transaction() as connection:
            outbox.send_again(connection, id)
        return JSONResponse({"id": str(id)}, status_code=202)

    @app.get("/webhooks", include_in_schema=False)
    def show_webhooks(request: Request) -> Response:
        lead_of(request)
        return page(request, "webhooks.html", view=seen(database), most=MOST_SHOWN)

    @app.post("/webhooks/{id}/again", include_in_schema=False)
    def send_again_and_show(request: Request, id: UUID) -> Response:
        send_again(request, id)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/webhooks", status_code=303)


def seen(database: Database) -> WebhooksView:
    with database.transaction() as connection:
        subscribed = {one.webhook: one for one in outbox.subscriptions(connection)}
        pending = outbox.pending(connection)
        dead = outbox.dead_letters(connection, limit=MOST_SHOWN)
    return WebhooksView(
        webhooks=[
            WebhookView(
                url=one.webhook,
                events=[WebhookEvent(event) for event in known.events]
                if (known := subscribed.get(one.webhook))
                else [],
                models=list(known.models) if known and known.models is not None else None,
                waiting=one.waiting,
                dead=one.dead,
                oldest=one.oldest,
            )
            for one in pending
        ],
        dead=[_dead_letter(delivery) for delivery in dead],
    )


def _dead_letter(delivery: Delivery) -> DeadLetter:
    values: dict[str, Any] = {
        "id": delivery.id,
        "url": delivery.webhook,
        "event": delivery.event,
        "case": delivery.case_id,
        "alarm": delivery.alarm_id,
        "at": delivery.created_at,
        "attempts": delivery.attempts,
        "dead_at": delivery.dead_at,
        "last_error": delivery.last_error,
    }
    return DeadLetter(**values)
