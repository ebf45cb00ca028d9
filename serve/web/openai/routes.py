"""The routes that OpenAI's clients know: chat completions and the list of models."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from demur.serve.access.caller import caller_of
from demur.serve.contract import wire
from demur.serve.contract.hosts import UnknownModel
from demur.serve.web.native.deadline import seconds_of, within
from demur.serve.web.native.headers import IdempotencyKey, RequestTimeout
from demur.serve.web.native.parts import body_of, parts_of
from demur.serve.web.openai import reply as chat_reply
from demur.serve.web.openai.conversation import FinishedReply, PassedThrough, StreamedReply
from demur.serve.web.openai.events import decided_events, tentative_events
from demur.serve.web.problems import logged_problem
from demur.serve.web.shared.leaving import CLIENT_CLOSED_REQUEST, CallerGone, unless_gone

logger = logging.getLogger("demur.http")

SAME_ORIGIN_EVENTS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""What lies between must neither keep events nor gather them."""

MEANINGS = {
    400: "Something in the request does not fit, or would change the configured reply; the message says what",
    401: "Nobody knows who you are; the message says how to tell",
    403: "Your key may not do this, or is not for this model",
    404: "No such model",
    408: "The body did not come in time (`limits` in the configuration)",
    409: "The Idempotency-Key was used with another input",
    413: "More than `limits` in the configuration allows",
    429: "Your key has used up its rate; try again after `Retry-After` seconds",
    502: "The model's endpoint answers nobody until somebody mends something; waiting does not help",
    503: "Not possible right now; try again after `Retry-After` seconds",
    504: "The time of X-Request-Timeout is over, and nothing was answered",
}

DECISION_HEADERS: dict[str, Any] = {
    "X-Demur-Action": {
        "schema": {"type": "string", "enum": ["answer", "review", "abstain", "tentative"]},
        "description": "`tentative`: the decision comes with the end of the stream.",
    },
    "X-Demur-Confidence": {"schema": {"type": "number"}, "description": "Left out where it is unknown."},
    "X-Demur-Id": {"schema": {"type": "string", "format": "uuid"}, "description": "Left out where it is tentative."},
}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": chat_reply.ChatProblemResponse, "description": meaning} for status, meaning in MEANINGS.items()
}

REFERENCE = {"$ref": "#/components/schemas/ChatRequest"}

router = APIRouter(tags=["Chat, as OpenAI has it"])


@router.post(
    "/v1/chat/completions",
    response_model=chat_reply.ChatCompletion,
    responses={
        200: {
            "headers": DECISION_HEADERS,
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
            "description": "The reply, or the configured words in its place. With `stream`, as events.",
        },
        **PROBLEMS,
    },
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": REFERENCE}}}},
    summary="Chat as with OpenAI; the decision rides along",
)
async def converse(request: Request, key: IdempotencyKey = None, timeout: RequestTimeout = None) -> Response:
    async def work() -> FinishedReply | StreamedReply | PassedThrough:
        conversing, caller = parts_of(request).conversing, caller_of(request.scope)
        result = await conversing.converse(await body_of(request), key, caller)
        if not isinstance(result, FinishedReply) or not result.waits:
            return result
        return await unless_gone(request, conversing.with_what_people_said(result, caller))

    try:
        return _response(await within(seconds_of(timeout), work()))
    except CallerGone:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    except Exception as error:
        return logged_problem(request, error)


@router.get("/v1/models", response_model=chat_reply.ModelList, summary="Models that can be talked to")
async def models(request: Request) -> Response:
    return _json(chat_reply.models_json(parts_of(request).conversing.talking_models(caller_of(request.scope))))


@router.get(
    "/v1/models/{model}",
    response_model=chat_reply.ListedModel,
    responses={404: PROBLEMS[404]},
    summary="Whether a model can be talked to",
)
async def model(request: Request, model: str) -> Response:
    if model not in parts_of(request).conversing.talking_models(caller_of(request.scope)):
        return logged_problem(request, UnknownModel(f"model: there is no model {model!r} to talk to"))
    return _json(chat_reply.model_json(model))


def _response(result: FinishedReply | StreamedReply | PassedThrough) -> Response:
    if isinstance(result, PassedThrough):
        return EventStream(result.body, result.status, result.headers)
    if isinstance(result, StreamedReply):
        events = tentative_events(
            result.id,
            result.at,
            result.request.model,
            result.pieces,
            result.held,
            wants_usage=result.request.wants_usage,
        )
        return EventStream(events, 200, {**SAME_ORIGIN_EVENTS, "X-Demur-Action": "tentative"}, "text/event-stream")
    record = result.committed.record
    headers = chat_reply.decision_headers(record)
    if result.committed.replayed:
        headers["Idempotent-Replay"] = "true"
    if not result.request.stream:
        return _json(chat_reply.completion_json(record, result.held), headers)
    decided = decided_events(record, result.held, wants_usage=result.request.wants_usage)
    return Response(b"".join(decided), 200, {**SAME_ORIGIN_EVENTS, **headers}, "text/event-stream")


def _json(content: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(wire.dump(content), 200, headers, "application/json")


class EventStream(StreamingResponse):
    """A response whose generator is closed as soon as whoever reads it is gone, even while it waits for more. Nothing
    is sent before there is a first part: where that fails, the status says so."""

    body_iterator: AsyncGenerator[bytes, None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send_all(scope, receive, send))
        leaving = asyncio.create_task(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
        except OSError as error:
            logger.info("a stream ended early: %s", str(error) or "the caller went away")
        finally:
            sending.cancel()
            leaving.cancel()

    async def _send_all(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.body_iterator) as parts:
            try:
                first = await anext(parts, b"")
            except Exception as error:
                await logged_problem(Request(scope), error)(scope, receive, send)
                return
            self.body_iterator = _after(first, parts)
            await self.stream_response(send)


async def _after(first: bytes, parts: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield first
    async for part in parts:
        yield part
