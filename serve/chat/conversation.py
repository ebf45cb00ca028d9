"""What comes of a chat completion, before it is put into the words of HTTP."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from demur.serve.chat.reply import Held
from demur.serve.chat.request import ChatRequest
from demur.serve.gateway.journal import Committed

Pieces = AsyncGenerator[str | Committed, None]
"""A reply as it is written, and last what was decided about it, which is on record by then. Closing it stops the model;
then nothing is on record."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """A reply about which everything is known and on record."""

    request: ChatRequest
    held: Held
    committed: Committed


@dataclass(frozen=True, kw_only=True)
class BeingSaid:
    """A reply that is being written."""

    request: ChatRequest
    held: Held
    id: UUID
    at: datetime
    pieces: Pieces


@dataclass(frozen=True, kw_only=True)
class PassedThrough:
    """What somebody else answers, or an engine by itself: no decision, no record."""

    status: int
    headers: Mapping[str, str]
    body: AsyncGenerator[bytes, None]
    """Closing it stops whoever answers."""
