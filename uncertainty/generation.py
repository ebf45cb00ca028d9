"""What a language model wrote about one input, and what was read from it. Knows no engine and no prompt."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput

Span = tuple[int, int]
"""Tokens [start, stop)."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What was spent to know something."""

    prompt_tokens: int = 0
    """Of each prompt once, however many replies to it were sampled."""

    completion_tokens: int = 0
    calls: int = 0
    """Requests to the engine."""

    seconds: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            calls=self.calls + other.calls,
            seconds=self.seconds + other.seconds,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Outage:
    """Why the model could not be asked. It says nothing about the input: at another time there may be a reply."""

    what: str
    """In a few words, for whoever waits: `answered 429`."""

    why: str
    """In full, for the record and the log: who was asked, and what came back."""

    passes: bool
    """Whether waiting may help; False where somebody has to mend something first, such as a key."""

    retry_after: float | None = None
    """Seconds to wait, where the other side named a time."""


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One reply. Tokens are those of the reasoning, if there is any, and then those of the answer; the token that ends
    the reply is not among them."""

    text: str
    """The answer, without the reasoning that led to it."""

    reasoning: str | None = None
    """The trace; None where the model wrote none."""

    tokens: tuple[str, ...] = ()
    """Empty where the engine tells none."""

    logprobs: Array | None = None
    """[L] natural logarithms, one for each token; None where the engine tells none."""

    top_logprobs: tuple[Array, ...] | None = None
    """[L], of each token the log-probabilities of its most probable alternatives; None where the engine tells none."""

    answer_start: int = 0
    """The first token of the answer."""

    finish_reason: str = "stop"
    """`stop`, or `length` where the reply was cut off."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    """All that were written, the end included; one of several replies of a remote endpoint has its share of them."""

    no_logprobs: str = ""
    """Why there are no log-probabilities although they were asked for, and what to do; else empty."""

    left_out: frozenset[str] = frozenset()
    """Parameters, such as `temperature=0`, that the endpoint refuses: the reply was written without them."""

    elsewhere: str = ""
    """The endpoint that wrote it, where that is not the first of several."""

    def __post_init__(self) -> None:
        for name, values in (("logprobs", self.logprobs), ("top_logprobs", self.top_logprobs)):
            if values is not None and len(values) != len(self.tokens):
                raise InvalidInput(f"{name} are {len(values)}, the tokens {len(self.tokens)}")

    @property
    def answer(self) -> Span:
        """Where the answer is among the tokens."""
        return self.answer_start, len(self.tokens)

    @property
    def reasoning_tokens(self) -> int | None:
        """Tokens before the answer, its marks included; None where the engine tells no tokens, or those of the answer
        alone."""
        untold = self.reasoning is not None and self.answer_start == 0
        return None if untold or not self.tokens else self.answer_start


@dataclass(frozen=True, kw_only=True)
class Replies:
    """What a language model said about one input, and what it was read as.

    A reading is the index of a label, or a tuple of indices, ascending, where labels do not exclude each other, or a
    text where there are no labels to choose from; None where nothing could be read.
    """

    first: Generation
    """The reply at temperature 0, which the prediction is read from."""

    said: Hashable | None
    """What `first` was read as."""

    spans: Mapping[int, Span] = field(default_factory=dict)
    """Where each predicted label stands among the tokens of `first`."""

    unknown: tuple[str, ...] = ()
    """Labels in `first` that the task does not have."""

    options: tuple[Hashable, ...] | None = None
    """What could have been read; None where anything could."""

    samples: tuple[Hashable | None, ...] = ()
    """What each sampled reply was read as. Empty where none was asked for."""

    stated: Mapping[int, float] | None = None
    """Confidence in [0, 1] that the model itself gave to each label; None where it was not asked, or not clear."""

    rating: float | None = None
    """Confidence in [0, 1] that the model itself gave to its answer afterwards; None as above."""

    usage: Usage = Usage()
    left_out: frozenset[str] = frozenset()
    """Parameters that the endpoint refuses, of everything that was asked about the input."""

    elsewhere: Mapping[str, int] = field(default_factory=dict)
    """Calls that another endpoint than the first one answered, by its address."""

    outage: Outage | None = None
    """Why the model could not be asked; None where it was."""

    def logprobs(self, span: Span | None = None) -> Array | None:
        """[L] of the answer, or of a part of it; None where they are not known, or nothing was written."""
        start, stop = self.first.answer if span is None else span
        return None if self.first.logprobs is None or stop <= start else self.first.logprobs[start:stop]

    def top_logprobs(self, span: Span | None = None) -> tuple[Array, ...] | None:
        """The log-probabilities of the alternatives of each token; None where there are none."""
        start, stop = self.first.answer if span is None else span
        return None if self.first.top_logprobs is None or stop <= start else self.first.top_logprobs[start:stop]


def as_column(rows: Sequence[object]) -> np.ndarray:
    """[n], as `Output` takes them."""
    column = np.empty(len(rows), dtype=object)
    column[:] = rows
    return column
