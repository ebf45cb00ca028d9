"""What is kept of a reply: the text, the reasoning that led to it, and how sure the model was of each token."""

from math import isnan

from demur.traffic.record import Reply, TokenLogprobs
from demur.uncertainty.generation import Generation

LONGEST_REASONING = 100_000
"""Characters of a trace that are kept; of a longer one the beginning."""

MOST_TOKENS = 4_096
"""Tokens of an answer whose log-probabilities are kept: the first ones."""

LEAST = -99.0
"""The log-probability of what cannot be."""


def kept_reply(generation: Generation) -> Reply:
    """Return what a record holds of a reply. A trace is there where the model wrote one, and log-probabilities where
    the engine was asked for them, which it is where a score reads them."""
    reply = Reply(text=generation.text, finish_reason=generation.finish_reason)
    if generation.reasoning:
        reply["reasoning"] = generation.reasoning[:LONGEST_REASONING]
        if len(generation.reasoning) > LONGEST_REASONING:
            reply["reasoning_characters"] = len(generation.reasoning)
    if tokens := _token_logprobs(generation):
        reply["tokens"] = tokens
    return reply


def _token_logprobs(generation: Generation) -> TokenLogprobs | None:
    """The log-probabilities of the answer's tokens; None where they are not known, or do not make up its text."""
    start, stop = generation.answer
    if generation.logprobs is None or stop <= start or not generation.text:
        return None
    texts = generation.tokens[start:stop]
    begin = "".join(texts).find(generation.text)
    if begin < 0:
        return None
    lengths: list[int] = []
    logprobs: list[float] = []
    place, end, pending = 0, begin + len(generation.text), 0.0
    for text, logprob in zip(texts, generation.logprobs[start:stop].tolist(), strict=True):
        if isnan(logprob):
            return None
        length = max(0, min(place + len(text), end) - max(place, begin))
        place += len(text)
        pending += max(logprob, LEAST)
        if length and len(lengths) < MOST_TOKENS:  # a token that is part of a character counts with the rest of it
            lengths.append(length)
            logprobs.append(round(max(pending, LEAST), 3))
        if length or place <= begin:
            pending = 0.0
    return TokenLogprobs(lengths=lengths, logprobs=logprobs) if lengths else None
