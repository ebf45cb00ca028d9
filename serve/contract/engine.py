"""What demur asks of whatever runs a language model. Scores and prompts never see more of it than this."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from demur.serve.contract.messages import Message
from demur.uncertainty.checks import Array
from demur.uncertainty.generation import Generation

Gives = Literal["logprobs", "top_logprobs", "label_logprobs", "constrained"]


class EngineFailed(RuntimeError):
    """The engine gave no reply. The message says why, and what to do where something can be done."""


class CannotGive(ValueError):
    """The engine cannot give what is configured. The message says what, and which setting to change."""


class LabelsUntold(EngineFailed):
    """The engine told too little to say which label is the most probable one. The message says what is missing."""


class LabelNotListed(LabelsUntold):
    """The engine listed alternatives, and a label that is not among them may be the most probable one."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """How one prompt is to be replied to. Nothing here outlives the request."""

    max_tokens: int
    n: int = 1
    """Replies; all of them share the cost of the prompt."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    """Of the first reply; each further one takes the next number. None: never the same twice."""

    logprobs: bool = False
    """Of the tokens that were written, as the model gave them: at temperature 1 and before anything was ruled out."""

    top_logprobs: int = 0
    """Alternatives of each token, of which the written one is one where it is among the most probable."""

    only: tuple[str, ...] | None = None
    """Texts of which the reply must be one; None: anything."""

    stop: tuple[str, ...] = ()

    without: frozenset[str] = frozenset()
    """Parameters, such as `temperature=0`, that are not sent: the artifact was fitted without them."""


@dataclass(frozen=True, kw_only=True)
class LabelLogprobs:
    """How probable each label is, after a prompt."""

    values: Array
    """[C], ln P(label | prompt), of its first token or of all its tokens and the end of the reply."""

    prompt_tokens: int
    left_out: frozenset[str] = frozenset()
    """As of a `Generation`, and `elsewhere` likewise."""

    elsewhere: str = ""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What came next in a stream."""

    text: str
    reasoning: str = ""
    whole: Generation | None = None
    """With the last piece, all of it."""


class Engine(Protocol):
    """A language model that takes many requests at a time. A cancelled request stops using the model."""

    @property
    def gives(self) -> frozenset[Gives]:
        """What it can give beyond text; `logprobs` of tokens may still be missing in a single reply."""
        ...

    async def generate(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        """Return `asking.n` replies. Raises `EngineFailed`."""
        ...

    def remarks(self) -> list[str]:
        """What whoever looks after the service should know of it now: sentences, none where all is as configured."""
        ...

    async def label_logprobs(
        self,
        messages: Sequence[Message],
        labels: Sequence[str],
        *,
        first_token: bool,
        without: frozenset[str] = frozenset(),
    ) -> LabelLogprobs:
        """Return how probable each label is, by its first token or as a whole. `without` is as in `Asking`."""
        ...

    def stream(self, messages: Sequence[Message], asking: Asking) -> AsyncIterator[Piece]:
        """One reply as it is written. Closing the iterator stops it."""
        ...

    async def check_health(self) -> None:
        """Raise `EngineFailed` where the engine is dead and must be started anew."""
        ...

    async def close(self) -> None: ...
