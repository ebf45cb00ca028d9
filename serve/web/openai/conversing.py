"""One chat completion, from its body to what is said: decided about, streamed, or passed through."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from demur.policies.decision import Action
from demur.serve.access.caller import Caller
from demur.serve.config.hosts.language import LanguageHost
from demur.serve.contract import wire
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.body import read_apart
from demur.serve.contract.commit import CommitResult
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.gateway.handler import Handler
from demur.serve.gateway.idempotency import key_use
from demur.serve.web.openai import request as chat
from demur.serve.web.openai.conversation import FinishedReply, PassedThrough, StreamedReply
from demur.serve.web.openai.proxy import Proxy
from demur.serve.web.openai.reply import HeldWords
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.record import KeyUse


class Conversing:
    """Serves chat completions by a gateway's handler, and closes with it."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._proxy = Proxy()
        handler.when_closed(self._proxy.close)

    async def converse(
        self, body: bytes, key: str | None, caller: Caller | None = None
    ) -> FinishedReply | StreamedReply | PassedThrough:
        """Serve one chat completion. What is `FinishedReply` is on disk."""
        handler = self._handler
        content = await read_apart(len(body), lambda: chat.read_json(body))
        if caller is not None:
            caller.check_model(content["model"])
            caller.take_predictions({content["model"]: 1})
        client = handler.model(content["model"])
        config, host = client.config, client.config.host
        chat.check_writes(client.name, config)
        assert isinstance(host, LanguageHost)  # no other writes
        if config.chat.proxy:
            return await self._proxy.pass_on(client.name, config, client.host, content)
        held = HeldWords.of(config)
        asked, request, use = await read_apart(
            len(body), lambda: read_conversation(content, key, caller, most_tokens=host.max_tokens)
        )
        if use and (stored := await handler.replay(use)):
            return FinishedReply(request=asked, held=held, committed=_still_kept(stored))
        if asked.stream and config.chat.stream == "tentative" and handler.may_stream(client.name):
            if asked.wait_seconds is not None:
                raise InvalidRequest(
                    "wait_seconds: this model's tokens are sent before there is a decision (chat.stream); ask without"
                    " `stream`, or look at /v1/predictions/{id}"
                )
            record_id, at, pieces = await handler.stream(request, use)
            return StreamedReply(request=asked, held=held, id=record_id, at=at, pieces=pieces)
        committed = await handler.predict_one(request, use, caller)
        return FinishedReply(request=asked, held=held, committed=_still_kept(committed))

    async def with_what_people_said(self, reply: FinishedReply, caller: Caller | None = None) -> FinishedReply:
        """Return a reply that is held with what people have said of it, as soon as they have, or as things stand when
        its `wait_seconds` are over, or at once where too many wait already. Where the database does not say, the reply
        comes as it is: it is on record."""
        record, seconds = reply.committed.record, reply.request.wait_seconds
        if seconds is None or record.action != Action.REVIEW:
            return reply
        inquiries = self._handler.inquiries
        try:
            try:
                view = await inquiries.prediction(record.id, wait_seconds=seconds, caller=caller)
            except Overloaded:
                view = await inquiries.prediction(record.id, caller=caller)
        except DatabaseUnavailable:
            return reply
        return replace(reply, held=replace(reply.held, outcome=view["outcome"]))

    def talking_models(self, caller: Caller | None = None) -> list[str]:
        """Return the names of the models that can be talked to, of those that the caller may ask."""
        talking = [name for name, client in self._handler.models.items() if client.config.task.writes]
        if caller is None or caller.models is None:
            return talking
        return [name for name in talking if name in caller.models]


def read_conversation(
    content: Mapping[str, Any], key: str | None, caller: Caller | None, *, most_tokens: int
) -> tuple[chat.ChatRequest, wire.PredictRequest, KeyUse | None]:
    """Return what a chat completion asks, the request of /v1/predict that asks for as much, and the use of its
    Idempotency-Key. It may be called in a thread."""
    asked = chat.read_request(content)
    asked.check_limits(most_tokens)
    request = wire.PredictRequest(
        model=asked.model, input=asked.input, group=asked.group, cluster=asked.cluster, review=asked.review
    )
    return asked, request, key_use(key, caller, lambda: ["chat", request.as_asked()])


def _still_kept(committed: CommitResult) -> CommitResult:
    """Raise `InvalidRequest` where a reply is asked for again whose text had its time."""
    record = committed.record
    if record.action == Action.ANSWER and record.reply is None:
        raise InvalidRequest("Idempotency-Key: the reply that was given under it is no longer kept; use a new key")
    return committed
