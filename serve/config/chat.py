"""How a model answers as a chat: `chat`."""

from typing import Literal

from pydantic import Field, model_validator

from demur.serve.config.hosts.host import AnyHost
from demur.serve.config.hosts.language import LanguageHost
from demur.serve.config.settings import Section


class ChatBounds(Section):
    """What a single request may ask for where demur is switched off."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Longest reply, its reasoning included; by default 4,096, or `host.max_tokens` where that is more. A request that
    names none gets this one."""

    n: int = Field(default=8, ge=1)
    """Replies to one request."""

    alternatives: int = Field(default=20, ge=0)
    """Tokens that are told beside each one, with their log-probabilities."""

    characters: int = Field(default=100_000, ge=1)
    """How many characters all texts of a request may have together."""

    seconds: float = Field(default=600.0, gt=0)
    """From the request to the end of the reply."""

    addresses: bool = False
    """Whether pictures, sounds and files may be addresses, which the endpoint fetches."""

    def longest_reply(self, host: AnyHost) -> int:
        own = host.max_tokens if isinstance(host, LanguageHost) else 0
        return self.max_tokens or max(LONGEST_REPLY, own)


LONGEST_REPLY = 4096


class ChatConfig(Section):
    """How the model answers at /v1/chat/completions."""

    stream: Literal["hold", "tentative"] = "hold"
    """`hold`: nothing is sent before the decision. `tentative`: tokens flow at once, and the decision comes last."""

    refusal: str = "I am not sure enough to answer this. A person has been asked."
    """What is said in the place of an answer that is held for review."""

    abstention: str = "I am not sure enough to answer this."
    """What is said in the place of an answer that is withheld and not reviewed."""

    proxy: bool = False
    """Whether requests are passed through, within `bounds`: no scores, no decision, no record."""

    bounds: ChatBounds | None = None
    """For `proxy`: what a single request may ask for; by default as `ChatBounds` says."""

    @model_validator(mode="after")
    def bounds_bound_something(self) -> "ChatConfig":
        if self.bounds is not None and not self.proxy:
            raise ValueError("bounds: they are for `proxy: true`; a decided reply is bounded by host.max_tokens")
        return self

    @property
    def passed_on(self) -> ChatBounds:
        """What a request may ask for that is passed through."""
        return self.bounds or ChatBounds()
