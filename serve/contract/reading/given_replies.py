"""Replies of a language model that a request brings."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from demur.library.nearest import one_of
from demur.serve.contract.inputs import GivenReply, InputLimits, InvalidRequest, TooLarge
from demur.serve.contract.reading.given_numbers import number_or_nan, numbers_in
from demur.serve.contract.reading.texts import kind_of

KEYS_OF_A_REPLY = ("text", "reasoning", "tokens", "logprobs", "top_logprobs", "finish_reason")


def read_reply(place: str, value: Any, limits: InputLimits) -> GivenReply:
    """Return a reply that came as a text, as an object with a `text`, or as a choice of OpenAI's protocol."""
    if isinstance(value, str):
        return GivenReply(text=_text(place, value, limits))
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{place}: a text, or an object with a `text`, is wanted here, not {kind_of(value)}")
    if "message" in value:  # a choice, as OpenAI's protocol has it
        value = _of_choice(place, value)
    if unknown := [name for name in value if name not in KEYS_OF_A_REPLY]:
        raise InvalidRequest(f"{place}.{unknown[0]}: {one_of(unknown[0], KEYS_OF_A_REPLY)}")
    reasoning, tokens = value.get("reasoning"), value.get("tokens") or []
    logprobs, top = value.get("logprobs"), value.get("top_logprobs")
    if not isinstance(tokens, list) or not all(isinstance(one, str) for one in tokens):
        raise InvalidRequest(f"{place}.tokens: a list of texts is wanted here")
    if not tokens and isinstance(logprobs, list):
        tokens = [""] * len(logprobs)
    for name, listed in (("logprobs", logprobs), ("top_logprobs", top)):
        if listed is not None and (not isinstance(listed, list) or len(listed) != len(tokens)):
            raise InvalidRequest(f"{place}.{name}: a list with an entry for each of the {len(tokens)} tokens is wanted")
    return GivenReply(
        text=_text(f"{place}.text", value.get("text"), limits),
        reasoning=None if reasoning is None else _text(f"{place}.reasoning", reasoning, limits),
        tokens=tuple(tokens),
        logprobs=None
        if logprobs is None
        else np.array([number_or_nan(f"{place}.logprobs.{at}", one) for at, one in enumerate(logprobs)]),
        top_logprobs=None
        if top is None
        else tuple(numbers_in(f"{place}.top_logprobs.{at}", one) for at, one in enumerate(top)),
        finish_reason=_finish(place, value.get("finish_reason", "stop")),
    )


def _text(place: str, value: Any, limits: InputLimits) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{place}: a text is wanted here, not {kind_of(value)}")
    if len(value) > limits.text_characters:
        raise TooLarge(
            f"{place}: the text has {len(value):,} characters; at most {limits.text_characters:,} are taken"
            " (limits.text_characters)"
        )
    return value


def _of_choice(place: str, choice: Mapping[str, Any]) -> dict[str, Any]:
    message, logprobs = choice["message"], choice.get("logprobs")
    if not isinstance(message, Mapping):
        raise InvalidRequest(f"{place}.message: an object with a `content` is wanted here")
    found: dict[str, Any] = {
        "text": message.get("content"),
        "reasoning": message.get("reasoning_content", message.get("reasoning")),
        "finish_reason": choice.get("finish_reason") or "stop",
    }
    entries = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if entries is None:
        return found
    try:
        found["tokens"] = [entry["token"] for entry in entries]
        found["logprobs"] = [entry["logprob"] for entry in entries]
        found["top_logprobs"] = [[one["logprob"] for one in entry.get("top_logprobs") or ()] for entry in entries]
    except (TypeError, KeyError, AttributeError):
        raise InvalidRequest(
            f"{place}.logprobs.content: a list of objects with `token` and `logprob` is wanted here"
        ) from None
    return found


def _finish(place: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{place}.finish_reason: `stop` or `length` is wanted here, not {kind_of(value)}")
    return "length" if value == "length" else "stop"
