"""What is kept of one prediction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NotRequired, TypedDict
from uuid import UUID

Answer = str | list[str]
"""One label; or a list of them, in the order of the task, where labels do not exclude each other."""

HELD_BY_ALARM = "held by alarm "
"""How the reason begins of what would have been answered, had an alarm not held it."""


class Cost(TypedDict):
    """What was spent on language models to come to a decision."""

    prompt_tokens: int
    """Of each prompt once, however many replies to it were sampled."""

    completion_tokens: int
    calls: int
    """Requests to the engines."""

    seconds: float
    elsewhere: NotRequired[dict[str, int]]
    """Of the calls, those that another endpoint than a model's first one answered, by its address."""


class TokenLogprobs(TypedDict):
    """How sure a model was of the tokens of a text, from its beginning on; of a very long one not to its end."""

    lengths: list[int]
    """Characters of each token."""

    logprobs: list[float]
    """Natural logarithms, rounded."""


class Reply(TypedDict):
    """What a language model wrote."""

    text: str
    finish_reason: str
    """`stop`, or `length` where it was cut off."""

    reasoning: NotRequired[str]
    """The trace that led to the text, or the beginning of a very long one. Missing where there was none."""

    reasoning_characters: NotRequired[int]
    """How long the whole trace was, where only its beginning is kept."""

    tokens: NotRequired[TokenLogprobs]
    """Missing where no score read log-probabilities, and where the text is not what the model wrote, letter for
    letter."""


@dataclass(kw_only=True, slots=True)  # frozen it would take four times as long to make, and millions are made
class Record:
    """One prediction as it was decided. Never changed afterwards."""

    id: UUID
    """UUIDv7, given by the server: ids sort by time, and nobody can choose one."""

    created_at: datetime
    model: str
    artifact: str | None
    group: str | None
    prediction: Answer | None
    """Where the model writes a text there is one prediction, that the text is right; `reply` is the text."""

    top_labels: list[str]
    top_probabilities: list[float]
    label_confidence: list[float] | None = None
    """Calibrated probability of each of `top_labels`; None where labels exclude each other."""

    prediction_set: list[str]
    scores: Mapping[str, float | None]
    confidence: float | None
    action: str
    reason: str
    label_probability: float
    """The chance, at decision time, that a person will be asked: 1 if held for review, else that of a
    spot check of predictions like this one."""

    timings: Mapping[str, float]
    """Milliseconds by stage."""

    steps: list[dict[str, Any]] | None = None
    """In a cascade, what each model said that was asked, in turn, the last one included; None where there is none."""

    cost: Cost | None = None
    """As far as it is known; a call that failed counts, with the tokens that are known of it. None where no
    language model was asked, or it gave no sign at all."""

    cluster: str | None = None
    """The caller's word for what the input belongs to: records with the same one depend on each other."""

    reply: Reply | None = None
    """The text, where the task is to write one. Kept beside the input, and None once the input's time was up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShadowDecision:
    """What an artifact in the shadow decided on the same output of the model. Nobody acted on it."""

    artifact: str
    prediction: Answer | None
    confidence: float | None
    action: str
    reason: str
    prediction_set: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyUse:
    """The use of an Idempotency-Key by one item of one request."""

    key: str
    """As it was sent; it has no blanks."""

    owner: str = ""
    """Whose key it is: the same key of somebody else is another one. Empty where nobody is asked who they are, and for
    every key of the time before keys had owners."""

    position: int
    fingerprint: bytes
    """Digest of the whole request: another input under the same key has another one."""

    earlier: Callable[[], bytes] | None = field(default=None, repr=False, compare=False)
    """The digest as an earlier version of demur made it, where that was another one."""

    @property
    def stored(self) -> str:
        """The key with its owner, as one text."""
        return f"{self.owner} {self.key}" if self.owner else self.key


@dataclass(kw_only=True, slots=True)
class Entry:
    """What is written for one prediction. Never changed afterwards."""

    record: Record
    input: Any
    output: Any = None
    """What a model said that runs elsewhere, as the request brought it; None where demur asked the model."""

    input_expires_at: datetime | None = None
    """From when on the input, and the output, may be deleted; None: never."""

    key: KeyUse | None = None
    shadow: ShadowDecision | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedRequest:
    """A request that got an error in the place of a prediction, because a model could not be asked. It is no record:
    nothing was predicted, so nothing is counted, reviewed or audited."""

    id: UUID
    created_at: datetime
    model: str
    group: str | None
    status: int
    """Of HTTP, as the caller was told: 503 where waiting helps, else 502."""

    reason: str
    retry_after: float | None
    """Seconds that the model's side named."""

    passed_to: str | None
    """The model that was asked in its place; None where the caller got the error."""

    request_id: str | None
    """As the log and the caller know the request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The truth about one prediction, as somebody knew it at some time."""

    label: Answer
    source: str
    author: str | None
    created_at: datetime
    text: str | None = None
    """What should have been written in the place of a reply that is wrong. Kept as long as the reply is."""

    codes: list[str] | None = None
    """Why the reply is wrong, in the codes of the configuration; None where nobody said."""
