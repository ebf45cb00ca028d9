"""What comes of a chat completion, before it is put into the words of HTTP."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from demur.serve.contract.commit import CommitResult, Pieces
from demur.serve.web.openai.reply import HeldWords
from demur.serve.web.openai.request import ChatRequest


@dataclass(frozen=True, kw_only=True)
class FinishedReply:
    """A reply about which everything is known and on record."""

    request: ChatRequest
    held: HeldWords
    committed: CommitResult

    @property
    def waits(self) -> bool:
        """Whether the request wants to know what people say of it."""
        return self.request.wait_seconds is not None


@dataclass(frozen=True, kw_only=True)
class StreamedReply:
    """A reply that is being written."""

    request: ChatRequest
    held: HeldWords
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
