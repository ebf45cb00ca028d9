"""What an endpoint refuses of the parameters of a request, learnt from its own words."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger("demur.language")

OPTIONAL = ("temperature", "top_p", "logprobs", "top_logprobs", "seed", "stop", "stream_options")
"""What a request can do without. A limit of the reply is never left out: nothing else bounds what it costs."""

BY_VALUE = ("temperature", "top_p")
"""Where one value may be refused and another taken. They also change what is written: an artifact is bound to them."""

LIMITS = ("max_tokens", "max_completion_tokens")
"""The two names of the longest reply; the older one is sent first."""

MOST_CHANGES = 6
"""Of one request: after so many it counts as refused."""

LONGEST_READ = 1000
"""Characters of a refusal that are looked at."""

NOT_ABOUT_PARAMETERS = re.compile(r"context|content|moderation|policy|safety|flagged|image|billing", re.IGNORECASE)
"""Error codes that are about the input, whatever the sentence beside them names."""

REFUSES = re.compile(
    r"support|unknown|recogni[sz]ed|unexpected|allowed|permitted|not available|accept|deprecated|extra (?:input|field)"
    r"|invalid|must be|should be|has to be|greater than|less than|at most|between|maximum|not enabled|forbidden|cannot"
    r"|requires|restricted|\bmax\b",
    re.IGNORECASE,
)
"""Words of a sentence that refuses something that it names."""


TOO_MANY = re.compile(
    r"at most|maximum|\bmax\b|greater than|less than|between|exceed|too (?:large|high|long|many)|range|up to|<=",
    re.IGNORECASE,
)
"""Words of a sentence that refuses a number because it is too large."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What an endpoint said about a request that it does not take."""

    message: str
    param: str | None = None
    """The parameter that it names apart from its sentence."""

    code: str | None = None


@dataclass(frozen=True, kw_only=True)
class ParameterChange:
    """What is done about one refused parameter."""

    name: str
    instead: Mapping[str, Any] = field(default_factory=dict)
    """What is sent in its place; nothing: it is left out."""

    value: Any = None
    """The refused one, where another may be taken."""

    because: str = ""

    def applied(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if self.name not in body or (self.name in BY_VALUE and body[self.name] != self.value):
            return dict(body)
        left = {name: value for name, value in body.items() if name not in self._goes}
        if "top_logprobs" in self.instead:  # as many as are taken, and never more than were wanted
            return {**left, "top_logprobs": min(self.instead["top_logprobs"], body["top_logprobs"])}
        return {**left, **dict.fromkeys(self.instead, body[self.name])}

    @property
    def in_words(self) -> str:
        named = written(self.name, self.value) if self.name in BY_VALUE else self.name
        does = "it is left out"
        if "top_logprobs" in self.instead:
            does = f"at most {self.instead['top_logprobs']} are asked for"
        elif self.instead:
            does = f"{', '.join(self.instead)} is sent in its place"
        return f"refuses {named} ({self.because}); {does}"

    @property
    def _goes(self) -> tuple[str, ...]:
        return ("logprobs", "top_logprobs") if self.name == "logprobs" else (self.name,)


def written(name: str, value: Any) -> str:
    """A parameter with its value, as artifacts and records name it."""
    return f"{name}={value:g}" if isinstance(value, int | float) else f"{name}={value}"


def without(body: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The body without parameters that are named with their value."""
    return {name: value for name, value in body.items() if name not in BY_VALUE or written(name, value) not in names}


def left_out(asked: Mapping[str, Any], sent: Mapping[str, Any]) -> frozenset[str]:
    """What was asked for, changes what is written, and was not sent."""
    return frozenset(written(name, asked[name]) for name in BY_VALUE if name in asked and name not in sent)


class RefusedParameters:
    """What one endpoint refuses for one model. Kept until this process ends; a restart tries everything again."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._known: list[ParameterChange] = []

    @property
    def in_words(self) -> list[str]:
        """Each refusal, for whoever asks how the endpoint is doing."""
        return [f"{self._where} {change.in_words}" for change in self._known]

    def why(self, name: str) -> str | None:
        """What the endpoint said when it refused this parameter; None where it never did."""
        return next((change.because for change in self._known if change.name == name and not change.instead), None)

    def applied(self, body: Mapping[str, Any], further: Sequence[ParameterChange] = ()) -> dict[str, Any]:
        """The body as the endpoint takes it, as far as that is known."""
        sent = dict(body)
        for change in (*self._known, *further):
            sent = change.applied(sent)
        return sent

    def remember(self, changes: Sequence[ParameterChange]) -> None:
        """A request succeeded with these changes, so it needed them. Of one parameter the last one counts."""
        for change in {change.name: change for change in changes}.values():
            if not any(
                (change.name, change.value, change.instead) == (k.name, k.value, k.instead) for k in self._known
            ):
                self._known.append(change)
                log.warning("%s %s from now on", self._where, change.in_words)


def change_for(
    refusal: Refusal, sent: Mapping[str, Any], changes: Sequence[ParameterChange] = ()
) -> ParameterChange | None:
    """What to do about a refusal of a body: leave out, rename or lower one parameter that was sent and that it names.
    None where it names none, for then it is about something else; and after too many `changes` of this request."""
    if len(changes) >= MOST_CHANGES:
        return None
    message = refusal.message[:LONGEST_READ]
    if refusal.code and NOT_ABOUT_PARAMETERS.search(refusal.code):
        return None
    name = _named(refusal.param, message, sent)
    if name is None:
        return None
    because = message[:200]
    if name in LIMITS:
        other = LIMITS[1 - LIMITS.index(name)]
        was_other = other in sent or any(change.name == other for change in changes)
        return (
            None
            if was_other or _is_of_value(message)
            else ParameterChange(name=name, instead={other: None}, because=because)
        )
    if name in ("logprobs", "top_logprobs") and (most := _most_alternatives(message, sent)):
        return ParameterChange(name="top_logprobs", instead={"top_logprobs": most}, because=because)
    value = sent[name] if name in BY_VALUE else None
    return ParameterChange(name=name, value=value, because=because)


def _named(param: str | None, message: str, sent: Mapping[str, Any]) -> str | None:
    """Which optional parameter of those that were sent is refused."""
    ours = [name for name in (*OPTIONAL, *LIMITS) if name in sent]
    if param:
        told = snake(re.split(r"[.\[\]]+", param.strip("."))[-1])
        return told if told in ours else None
    if not REFUSES.search(message):
        return None
    words = [snake(word) for word in re.findall(r"\w+", message)]
    found = [name for name in ours if name in words]
    if LIMITS[1] in words and LIMITS[0] in found:  # "use 'max_completion_tokens' instead"
        return LIMITS[0]
    return min(found, key=words.index, default=None)


def snake(word: str) -> str:
    """The name of a parameter as most endpoints spell it."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).lower()


def _is_of_value(message: str) -> bool:
    """Whether a limit is refused because it is too high: another name would not help."""
    return LIMITS[1] not in message and TOO_MANY.search(message) is not None


def _most_alternatives(message: str, sent: Mapping[str, Any]) -> int:
    """How many alternatives of a token the endpoint lists, by its words; 0 where they do not say so."""
    asked = sent.get("top_logprobs", 0)
    if not TOO_MANY.search(message):
        return 0
    return max((int(number) for number in re.findall(r"\b\d{1,3}\b", message) if 0 < int(number) < asked), default=0)
