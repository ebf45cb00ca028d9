"""What a request may ask for where demur is switched off (`chat.proxy`): everything that multiplies what it costs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from demur.serve.config.chat import ChatBounds
from demur.serve.config.hosts.kinds import AnyLanguageHost
from demur.serve.contract.inputs import InvalidRequest, TooLarge
from demur.serve.hosts.language.refused_parameters import LIMITS, snake
from demur.serve.web.openai.addresses import check_addresses

LENGTHS = frozenset(
    {
        *LIMITS,
        "max_new_tokens",
        "max_output_tokens",
        "min_tokens",
        "num_predict",
        "budget_tokens",
        "thinking_token_budget",
    }
)
NUMBERS = frozenset({"n", "best_of", "num_return_sequences", "candidate_count", "num_beams", "beam_width"})
ALTERNATIVES = frozenset({"logprobs", "top_logprobs", "prompt_logprobs"})
"""Names under which endpoints take how long a reply may be, how many there are, and how many tokens are told beside
each one; in snake case, and wherever they stand outside of what is said."""

SAID = frozenset({"messages", "tools", "functions", "response_format", "prediction", "metadata"})
"""Keys under which any name may stand: they hold what is said, and shapes of what is to be said."""

MEDIA = frozenset({"image_url", "input_audio", "audio_url", "video_url", "file"})
"""Parts of a message that hold no text; `limits.body_bytes` bounds them."""


@dataclass(frozen=True, kw_only=True)
class BoundedRequest:
    """A request that keeps to the bounds."""

    content: Mapping[str, Any]
    limit_added: bool
    """Whether the longest reply was left to the endpoint, and stands in it now."""


def within_bounds(
    content: Mapping[str, Any], bounds: ChatBounds, host: AnyLanguageHost, *, limit_name: str
) -> BoundedRequest:
    """Return the request with a longest reply in it, as `limit_name` where it names none. Raises `InvalidRequest` for
    what is above a bound, and `TooLarge` for a longer prompt."""
    if not bounds.addresses:
        check_addresses(content)
    longest = bounds.longest_reply(host)
    for name, value in _settings(content):
        for names, most, key in (
            (LENGTHS, longest, "max_tokens"),
            (NUMBERS, bounds.n, "n"),
            (ALTERNATIVES, bounds.alternatives, "alternatives"),
        ):
            if snake(name) in names:
                _check(name, value, most, key)
    if (characters := sum(map(len, _texts(content)))) > bounds.characters:
        raise TooLarge(
            f"messages: the request has {characters:,} characters of text; at most {bounds.characters:,} are passed on"
            " (chat.bounds.characters)"
        )
    added = all(content.get(name) is None for name in LIMITS)
    return BoundedRequest(content={**content, limit_name: longest} if added else content, limit_added=added)


def _check(name: str, value: Any, most: int, key: str) -> None:
    if value is None or (name == "logprobs" and isinstance(value, bool)):
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        shown = json.dumps(value)[:50]
        raise InvalidRequest(f"{name}: {shown} is not a whole number of at most {most:,} (chat.bounds.{key})")


def _settings(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every key with its value, outside of what is said."""
    waiting: list[Any] = [content]
    while waiting:
        inside = waiting.pop()
        if isinstance(inside, list):
            waiting += inside
        elif isinstance(inside, dict):
            for name, value in inside.items():
                if name not in SAID:
                    yield name, value
                    waiting.append(value)


def _texts(content: Any) -> Iterator[str]:
    """Every text of a request, keys as well, whatever it is for, but for pictures and the like."""
    waiting = [content]
    while waiting:
        inside = waiting.pop()
        if isinstance(inside, str):
            yield inside
        elif isinstance(inside, list):
            waiting += inside
        elif isinstance(inside, dict):
            yield from inside
            waiting += [value for name, value in inside.items() if name not in MEDIA]
