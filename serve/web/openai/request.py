"""OpenAI's chat completions: what is taken of a request, and what is refused because it would change the reply."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, WithJsonSchema, field_validator
from pydantic_core import from_json

from demur.serve.config.complaint import complaint
from demur.serve.config.file import ModelConfig
from demur.serve.config.known_keys import known_keys
from demur.serve.contract import wire
from demur.serve.contract.body import check_structure, check_whole_numbers
from demur.serve.contract.inputs import InvalidRequest

ONLY: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "temperature": (0,),
    "stop": ([], ""),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "moderation": (),
    "reasoning_effort": (),
    "verbosity": (),
    "web_search_options": (),
}
"""What would change the reply or the answer's form, and the values (besides null) with which it does not. A decision is
only fitted for replies as they are configured."""

WITHOUT_EFFECT = (
    "top_p",
    "seed",
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "parallel_tool_calls",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
)
"""What is taken and changes nothing: a reply at temperature 0 does not hang on a seed."""

OPTIONAL_OF_MESSAGE = frozenset({"name", "refusal", "annotations", "audio", "function_call", "tool_calls"})
"""What the official client sends along when a reply goes back to the model as it was received."""


LONGEST_WAIT = 60.0
"""Seconds that one request may wait for people."""

TEXT_PART = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    "required": ["type", "text"],
}
PICTURE_PART = {
    "type": "object",
    "properties": {
        "type": {"const": "image_url"},
        "image_url": {
            "type": "object",
            "properties": {"url": {"type": "string"}, "detail": {"const": "auto"}},
            "required": ["url"],
        },
    },
    "required": ["type", "image_url"],
}
PARTS = {"type": "array", "items": {"anyOf": [TEXT_PART, PICTURE_PART]}}


class ChatMessage(wire.Body):
    """One message. Of a list of parts texts are taken, which are joined by line breaks, and pictures where the model
    takes them."""

    role: Literal["system", "developer", "user", "assistant"] = Field(description="`developer` is read as `system`.")
    content: Annotated[str | list[Any], WithJsonSchema({"anyOf": [{"type": "string"}, PARTS]})]

    @field_validator("content", mode="before")
    @classmethod
    def texts_are_joined(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        for part in value:
            kind = part.get("type") if isinstance(part, dict) else part
            if kind != "image_url" and (kind != "text" or not isinstance(part.get("text"), str)):
                raise ValueError(f"only parts of the types 'text' and 'image_url' are taken, not {kind!r}")
        if any(part["type"] == "image_url" for part in value):
            return value  # read as an input of the model is, which knows whether it takes pictures
        return "\n".join(part["text"] for part in value)


class StreamOptions(wire.Body):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class ChatRequest(wire.Body):
    """A chat completion, as OpenAI's clients ask for it. What would change the configured reply is refused."""

    model: str = Field(description="Name of a configured language model whose task is `generate`.")
    messages: wire.Listed[ChatMessage] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(
        default=None, ge=1, description="Taken where it is no lower than what is configured: no reply is longer."
    )
    max_completion_tokens: int | None = Field(default=None, ge=1, description="As `max_tokens`.")
    group: wire.Word | None = Field(default=None, description="Not OpenAI's: as in /v1/predict.")
    cluster: wire.Word | None = Field(default=None, description="Not OpenAI's: as in /v1/predict.")
    review: wire.ReviewWishes | None = Field(default=None, description="Not OpenAI's: as in /v1/predict.")
    wait_seconds: float | None = Field(
        default=None,
        ge=0,
        le=LONGEST_WAIT,
        allow_inf_nan=False,
        description="Not OpenAI's: where the reply is held, how long to wait for what people say of it. What they wrote"
        " in its place is then the message. To wait on, send the request again with its Idempotency-Key.",
    )

    def check_limits(self, max_tokens: int) -> None:
        """Raise `InvalidRequest` where the reply would have to be shorter than the decision was fitted for."""
        for name in ("max_tokens", "max_completion_tokens"):
            value = getattr(self, name)
            if value is not None and value < max_tokens:
                raise InvalidRequest(
                    f"{name}: {value} is less than the {max_tokens} for which decisions are fitted here, and a reply"
                    " cut off earlier is another one; leave it out"
                )

    @property
    def input(self) -> dict[str, Any]:
        """The messages as /v1/predict takes them, and as they are kept."""
        return {
            "messages": [
                {"role": "system" if message.role == "developer" else message.role, "content": message.content}
                for message in self.messages
            ]
        }

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class PlainRequest(ChatRequest):
    """A chat completion where nothing is decided: settings count."""

    n: int | None = Field(default=None, ge=1, le=128)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    stop: str | wire.Listed[str] | None = None


def read_json(body: bytes) -> dict[str, Any]:
    """Return the body as an object that names a model."""
    check_structure(body)
    try:
        content = from_json(body)  # unlike json.loads it refuses half a surrogate pair, which nobody could write
    except ValueError as error:
        raise wire.MalformedBody(f"the body is not JSON: {error}") from None
    check_whole_numbers(content)
    if not isinstance(content, dict) or not isinstance(content.get("model"), str):
        raise InvalidRequest("model: name a model; /v1/models lists them")
    return content


def read_request(content: Mapping[str, Any]) -> ChatRequest:
    """Return the checked request, or raise `InvalidRequest` in words for the caller."""
    return _read(ChatRequest, content, "the decision is fitted for replies as they are configured")


def read_plain_request(content: Mapping[str, Any]) -> PlainRequest:
    """Return what a body asks of a model in a replica about which nothing is decided."""
    request = _read(PlainRequest, content, "the model behind it is asked for plain texts alone")
    for at, message in enumerate(request.messages):
        if not isinstance(message.content, str):
            raise InvalidRequest(
                f"messages.{at}.content: pictures are not passed on to this model while demur is switched off"
                " (chat.proxy); send texts alone, or ask an endpoint"
            )
    return request


C = TypeVar("C", bound=ChatRequest)


def _read(kind: type[C], content: Mapping[str, Any], why: str) -> C:
    """Settings that this kind of request has no field for have no effect, or are refused because of `why`."""
    left = dict(content)
    for name in (*ONLY, *WITHOUT_EFFECT):
        if name not in kind.model_fields and name in left:
            _refuse(name, left.pop(name), why)
    if isinstance(messages := left.get("messages"), list):
        left["messages"] = [_without_optional(at, message) for at, message in enumerate(messages)]
    try:
        return kind.model_validate(left)
    except ValidationError as error:
        raise InvalidRequest(complaint(error, left, known_keys(kind))) from None


def _refuse(name: str, value: Any, why: str) -> None:
    """Raise `InvalidRequest` for a value in `ONLY` that is neither null nor one of those that are listed there."""
    if name in ONLY:
        allowed = ONLY[name]
        fine = value is None or any(
            value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed
        )
        if not fine:
            wanted = (
                f"only {' or '.join(json.dumps(one) for one in allowed)} is taken" if allowed else "it is not taken"
            )
            raise InvalidRequest(f"{name}: {wanted}, since {why}; leave it out")


def _without_optional(at: int, message: Any) -> Any:
    if not isinstance(message, dict) or OPTIONAL_OF_MESSAGE.isdisjoint(message):
        return message
    for name in OPTIONAL_OF_MESSAGE - {"refusal"}:
        if message.get(name):
            raise InvalidRequest(f"messages.{at}.{name}: it is not taken; leave it out")
    return {name: value for name, value in message.items() if name not in OPTIONAL_OF_MESSAGE}


def check_writes(name: str, model: ModelConfig) -> None:
    """Raise `InvalidRequest` for a model that cannot be talked to."""
    if not model.host.is_language or not model.task.writes:
        raise InvalidRequest(
            f"model: {name!r} has a {model.task.kind} task, and only `generate` tasks are talked to here;"
            " ask it at /v1/predict"
        )
