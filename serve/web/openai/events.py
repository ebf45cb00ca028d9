"""A chat completion as server-sent events: decided before the first of them, or with the last."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import datetime
from typing import Any
from uuid import UUID

from demur.serve.contract import wire
from demur.serve.contract.commit import Pieces
from demur.serve.web.openai.errors import problem_of
from demur.serve.web.openai.reply import HeldWords, completion_id, decision_json, finish_reason, said, usage_json
from demur.traffic.record import Record

DONE = b"data: [DONE]\n\n"

CHARACTERS = 200
"""Of a text in each event, where all of it is there already."""


def decided_events(record: Record, held: HeldWords, *, wants_usage: bool) -> Iterator[bytes]:
    """Events of a reply about which everything is known."""
    chunks = CompletionChunks(record.id, record.created_at, record.model, wants_usage=wants_usage)
    text, words = said(record, held), held.words(record)
    yield chunks.of({"role": "assistant", "content": "", "refusal": words})
    for start in range(0, len(text), CHARACTERS):
        yield chunks.of({"content": text[start : start + CHARACTERS]})
    yield from chunks.decided({}, record, held)


async def tentative_events(
    record_id: UUID, at: datetime, model: str, pieces: Pieces, held: HeldWords, *, wants_usage: bool
) -> AsyncIterator[bytes]:
    """Events of a reply that is being written. The first says that it is tentative; the last is the decision, which is
    on record by then. A reply that is held has been seen: its `refusal` says what to think of it. Raises what goes
    wrong before there is any; what goes wrong later is an event."""
    chunks = CompletionChunks(record_id, at, model, wants_usage=wants_usage)
    async with aclosing(pieces):
        piece = await anext(pieces, None)
        yield chunks.of({"role": "assistant", "content": ""}, demur={"tentative": True})
        try:
            while piece is not None:
                if isinstance(piece, str):
                    yield chunks.of({"content": piece})
                else:
                    words = held.words(piece.record)
                    for event in chunks.decided({} if words is None else {"refusal": words}, piece.record, held):
                        yield event
                piece = await anext(pieces, None)
        except Exception as error:
            _, problem = problem_of(error)
            yield event_of(problem)


class CompletionChunks:
    """Chunks of one completion."""

    def __init__(self, record_id: UUID, at: datetime, model: str, *, wants_usage: bool) -> None:
        self._wants_usage = wants_usage
        self._same = {
            "id": completion_id(record_id),
            "object": "chat.completion.chunk",
            "created": int(at.timestamp()),
            "model": model,
        }

    def of(self, delta: dict[str, Any], *, finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return self._event([choice], None, more)

    def decided(self, delta: dict[str, Any], record: Record, held: HeldWords) -> Iterator[bytes]:
        """The last ones. Where usage is wanted, that is the last, and the decision rides on both."""
        decision = decision_json(record, held)
        more = {"system_fingerprint": record.artifact, "demur": decision}
        yield self.of(delta, finish=finish_reason(record, held), **more)
        if self._wants_usage:
            yield self._event([], usage_json(record.cost), more)
        yield DONE

    def _event(self, choices: list[dict[str, Any]], usage: dict[str, int] | None, more: dict[str, Any]) -> bytes:
        spent = {"usage": usage} if self._wants_usage else {}
        return event_of({**self._same, "choices": choices, **spent, **more})


def event_of(content: Any) -> bytes:
    return b"data: " + wire.dump(content) + b"\n\n"
