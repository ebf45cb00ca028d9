"""One input on its way through a language model: what was asked and replied so far, and what it comes to in numbers."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from demur.serve.contract.engine import LabelLogprobs
from demur.serve.contract.inputs import ModelInput
from demur.serve.contract.messages import Message, pictures_of, text_of
from demur.serve.hosts.language.forms import Example, ModelQuestion, ReplyReading
from demur.uncertainty.checks import Array
from demur.uncertainty.generation import Generation, Outage, Replies, Usage
from demur.uncertainty.readings import sample_probabilities

LEAST = 1e-12
"""The least probability whose logarithm is told: logits are finite."""

SURE = float(np.log(LEAST))


class Spending:
    """What was spent on one input. The tokens of a prompt count once, however often it was asked, and a second counts
    once, however many requests were on their way in it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._prompts: set[tuple[tuple[str, ...], ...]] = set()
        self._prompt_tokens = self._completion_tokens = self._calls = 0
        self._seconds = 0.0
        self._on_their_way = 0
        self._since = 0.0

    @property
    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            calls=self._calls,
            seconds=self._seconds,
        )

    def __enter__(self) -> None:
        """From here on a request is on its way."""
        if not self._on_their_way:
            self._since = self._clock()
        self._on_their_way += 1

    def __exit__(self, *_: object) -> None:
        """It counts as a call however it ends."""
        self._on_their_way -= 1
        self._calls += 1
        if not self._on_their_way:
            self._seconds += self._clock() - self._since

    def add(self, messages: Sequence[Message], *, prompt_tokens: int, completion_tokens: int = 0) -> None:
        """What came of a request."""
        prompt = tuple((message["role"], text_of(message), *pictures_of([message])) for message in messages)
        if prompt not in self._prompts:
            self._prompts.add(prompt)
            self._prompt_tokens += prompt_tokens
        self._completion_tokens += completion_tokens


@dataclass(kw_only=True)
class LanguageRow:
    """What is known of one input."""

    value: ModelInput
    options: tuple[int, ...] | None
    """What can be read; None where anything can."""

    ledger: Spending
    examples: list[Example] = field(default_factory=list)
    asked: ModelQuestion | None = None
    first: Generation | None = None
    read: ReplyReading = field(default_factory=ReplyReading)
    label_logprobs: Array | None = None
    """[n options], as the engine gives them."""

    samples: list[Hashable | None] = field(default_factory=list)
    stated: Mapping[int, float] | None = None
    rating: float | None = None
    failed: str | None = None
    """Why the row cannot be used; None where it can."""

    outage: Outage | None = None
    """Why the model could not be asked; None where it could."""

    without: frozenset[str] = frozenset()
    """Parameters that are not sent, because the artifact was fitted without them."""

    left_out: frozenset[str] = frozenset()
    """Parameters that were not sent: those, and what the endpoint has refused since."""

    elsewhere: Counter[str] = field(default_factory=Counter)
    """Calls that another endpoint than the first one answered."""

    def note(self, *replied: Generation | LabelLogprobs) -> None:
        """How an endpoint was asked in one call, and which one."""
        self.left_out = self.left_out.union(*(one.left_out for one in replied))
        self.elsewhere.update({one.elsewhere for one in replied} - {""})

    @property
    def replies(self) -> Replies:
        return Replies(
            first=self.first or Generation(text=""),
            said=self.read.said,
            spans=self.read.spans,
            unknown=self.read.unknown,
            options=self.options,
            samples=tuple(self.samples),
            stated=self.stated,
            rating=self.rating,
            usage=self.ledger.usage,
            left_out=self.left_out,
            elsewhere=self.elsewhere,
            outage=self.outage,
        )

    def by_reply(self, width: int) -> Array:
        """[C]: 1 for what the first reply was read as."""
        return one_hot(self.read.said, width)

    def by_logprobs(self, width: int) -> Array:
        """[C]: the model's own probabilities of the labels, among each other."""
        logprobs = np.asarray(self.label_logprobs, dtype=np.float64)
        shares = np.zeros(width)
        shares[list(self.options or ())] = np.exp(logprobs - logsumexp(logprobs))
        return shares

    def by_samples(self, width: int) -> Array:
        """[C]: how often each label was replied; a reply that could not be read speaks for all of them alike."""
        return sample_probabilities(self.replies, width)

    @property
    def n_read(self) -> int:
        """Samples that could be read."""
        return sum(said is not None for said in self.samples)

    def passes(self, width: int) -> Array:
        """[M, C]: 1 for what each sample was read as, zeros for one that could not be read."""
        return np.array([one_hot(said, width) for said in self.samples]).reshape(-1, width)


def one_hot(said: Hashable | None, width: int) -> Array:
    """[C], 1 for the label or the labels that were read."""
    shares = np.zeros(width)
    if said is not None:
        shares[list(said) if isinstance(said, tuple) else [said]] = 1  # type: ignore[index]
    return shares
