"""An engine whose reply can be listened to while it is written, by whoever waits for the decision about it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass

from demur.serve.contract.engine import Asking, Engine, EngineFailed, Gives, LabelLogprobs, Piece
from demur.serve.contract.messages import Message
from demur.uncertainty.generation import Generation

Hear = Callable[[str], None]
"""Told each piece of the text as it is written."""


@dataclass
class Ear:
    hear: Hear
    taken: bool = False


EAR: ContextVar[Ear | None] = ContextVar("ear", default=None)


def listening(hear: Hear) -> Context:
    """A context for a task in which one input is decided: `hear` is told of the first reply at temperature 0 that the
    task asks for, which is the one that the prediction is read from."""
    context = copy_context()
    context.run(EAR.set, Ear(hear))
    return context


class OverheardEngine:
    """Any engine. Whatever is asked of it outside of `listening`, it passes on as it is."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def gives(self) -> frozenset[Gives]:
        return self._engine.gives

    async def generate(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        ear = EAR.get()
        if ear is None or ear.taken or asking.n > 1 or asking.temperature > 0:
            return await self._engine.generate(messages, asking)
        ear.taken = True
        async for piece in self._engine.stream(messages, asking):  # a cancelled task is cancelled inside the engine
            if piece.text:
                ear.hear(piece.text)
            if piece.whole is not None:
                return [piece.whole]
        raise EngineFailed("the engine's stream ended without the whole reply")

    def remarks(self) -> list[str]:
        return self._engine.remarks()

    async def label_logprobs(
        self,
        messages: Sequence[Message],
        labels: Sequence[str],
        *,
        first_token: bool,
        without: frozenset[str] = frozenset(),
    ) -> LabelLogprobs:
        return await self._engine.label_logprobs(messages, labels, first_token=first_token, without=without)

    def stream(self, messages: Sequence[Message], asking: Asking) -> AsyncIterator[Piece]:
        return self._engine.stream(messages, asking)

    async def check_health(self) -> None:
        await self._engine.check_health()

    async def close(self) -> None:
        await self._engine.close()
