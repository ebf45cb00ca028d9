"""Words of a reply that the model itself found no more likely than all others together."""

from collections.abc import Iterator
from math import exp, log
from typing import NamedTuple

from demur.traffic.record import Reply, TokenLogprobs

WEAK = log(0.5)
"""Below it something else was as likely."""

MOST = 200
"""Marks in one text: the weakest."""

NO_TOKENS = TokenLogprobs(lengths=[], logprobs=[])


class WeakPart(NamedTuple):
    """A piece of a text."""

    text: str
    weak: float | None = None
    """The probability that the model gave to the least probable token in it; None where it was sure enough."""


def weak_parts(reply: Reply) -> list[WeakPart]:
    """Return the text in pieces, which put together are the text. Weak tokens side by side are one piece, without the
    blanks around them. Without log-probabilities it is one piece."""
    text, tokens = reply["text"], reply.get("tokens", NO_TOKENS)
    found = sorted(_weak_spans(text, tokens), key=lambda span: span[2])[:MOST]
    parts: list[WeakPart] = []
    place = 0
    for start, end, logprob in sorted(found):
        parts += [WeakPart(text[place:start]), WeakPart(text[start:end], exp(logprob))]
        place = end
    return [part for part in (*parts, WeakPart(text[place:])) if part.text]


def _weak_spans(text: str, tokens: TokenLogprobs) -> Iterator[tuple[int, int, float]]:
    """Where weak words begin and end, and the least log-probability of a token in them."""
    start = place = 0
    least = 0.0
    for length, logprob in zip(tokens["lengths"], tokens["logprobs"], strict=True):
        if logprob < WEAK:
            least = min(least, logprob)
        else:
            yield from _trimmed(text, start, place, least)
            start, least = place + length, 0.0
        place += length
    yield from _trimmed(text, start, place, least)


def _trimmed(text: str, start: int, end: int, least: float) -> Iterator[tuple[int, int, float]]:
    span = text[start:end]
    if least < WEAK and span.strip():
        begin = start + len(span) - len(span.lstrip())
        yield begin, begin + len(span.strip()), least
