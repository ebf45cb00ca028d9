"""Replies as JSON, so that tables can be made again without running the model."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from demur.uncertainty.checks import Array
from demur.uncertainty.generation import Generation, Replies, Usage

DIGITS = 7
"""Behind the point, of log-probabilities."""


def as_json(replies: Replies) -> dict[str, Any]:
    """What scores look at, and the usage."""
    first = replies.first
    return {
        "text": first.text,
        "reasoning": first.reasoning,
        "tokens": list(first.tokens),
        "logprobs": None if first.logprobs is None else _numbers(first.logprobs),
        "top_logprobs": None if first.top_logprobs is None else [_numbers(row) for row in first.top_logprobs],
        "answer_start": first.answer_start,
        "said": replies.said,
        "spans": {str(label): list(span) for label, span in replies.spans.items()},
        "options": replies.options,
        "samples": list(replies.samples),
        "stated": None if replies.stated is None else {str(label): c for label, c in replies.stated.items()},
        "rating": replies.rating,
        "usage": vars(replies.usage),
    }


def from_json(told: dict[str, Any]) -> Replies:
    top, stated = told["top_logprobs"], told["stated"]
    return Replies(
        first=Generation(
            text=told["text"],
            reasoning=told["reasoning"],
            tokens=tuple(told["tokens"]),
            logprobs=None if told["logprobs"] is None else np.array(told["logprobs"], dtype=np.float64),
            top_logprobs=None if top is None else tuple(np.array(row, dtype=np.float64) for row in top),
            answer_start=told["answer_start"],
        ),
        said=_reading(told["said"]),
        spans={int(label): (start, stop) for label, (start, stop) in told["spans"].items()},
        options=None if told["options"] is None else tuple(told["options"]),
        samples=tuple(map(_reading, told["samples"])),
        stated=None if stated is None else {int(label): confidence for label, confidence in stated.items()},
        rating=told["rating"],
        usage=Usage(**told["usage"]),
    )


def _reading(told: Any) -> Hashable | None:
    return tuple(told) if isinstance(told, list) else told


def _numbers(values: Array) -> list[float]:
    return [round(float(value), DIGITS) for value in values]
