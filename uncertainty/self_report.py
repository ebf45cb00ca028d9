"""Confidence that the model states in words, read strictly: what is not clear is refused, never repaired.

One prompt for all labels (MADE A.7.3), or a rating asked for after the answer (GAP 4.1).
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from demur.uncertainty.checks import InvalidInput, fraction, real_number
from demur.uncertainty.label_sets import label_set

# possessive (*+) where runs of blanks or words follow each other: no reply can make the search slow
FENCE = re.compile(r"(`{3,}+|~{3,}+)[ \t]*+[\w+-]*+")
"""The beginning of a code fence, with the word that may name its language."""

NUMBER = r"(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?"

BRACKETED = re.compile(rf"\[\s*+([+-]?{NUMBER})\s*+%?\s*+\]")

DASH = r"\-\u2010\u2011\u2012\u2013\u2212"

FREE_STANDING = re.compile(rf"(?<![\w.{DASH}])(?<!\d,)({NUMBER})(?!\w|[.,]\d|[{DASH}]\w)")
"""A number that is no part of a word (A04), of a longer number (1,000), of a negative one or of a range (70-80)."""


@dataclass(frozen=True, kw_only=True)
class JointConfidences:
    """What a model said of all labels at once."""

    confidences: dict[str, float]
    """Confidence in [0, 1] of each known label, in the order of the reply. Empty: nothing applies."""

    unknown: tuple[str, ...]
    """Labels in the reply that are not in the list; they are reported and not used."""


def parse_joint_confidences(text: Any, labels: Any = None) -> JointConfidences:
    """Read a reply that is one JSON object label -> confidence, bare or in one code fence.

    Raises if it is anything else, if a label comes twice, or if a value is not a number in [0, 1]; 85 is not
    taken for 0.85. Without `labels` every label is known.
    """
    known = None if labels is None else label_set("labels", labels)
    reply = _unfenced(_text(text).strip())
    try:
        values = json.loads(reply, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except RecursionError:
        raise InvalidInput("the reply is nested too deeply to be label -> confidence") from None
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(f"the reply is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise InvalidInput("the reply is JSON, but no object")
    confidences = {label: _confidence(label, value) for label, value in values.items()}
    return JointConfidences(
        confidences={label: c for label, c in confidences.items() if known is None or label in known},
        unknown=tuple(label for label in confidences if known is not None and label not in known),
    )


def self_verbalised(confidences: Any) -> dict[Any, float]:
    """1 - confidence of each label, in [0, 1]; an empty prediction has no scores."""
    if not isinstance(confidences, Mapping):
        raise InvalidInput("confidences is no mapping from labels to numbers")
    return {label: 1 - _confidence(label, value) for label, value in confidences.items()}


def parse_confidence_rating(text: Any, *, scale: float = 100) -> float:
    """Read a rating from 0 to `scale` as a confidence in [0, 1].

    It is the first number alone in square brackets, with or without %, otherwise the first free-standing
    non-negative number. Raises if there is none or if it is outside the scale.
    """
    top = real_number("scale", scale, above=0)
    found = BRACKETED.search(_text(text)) or FREE_STANDING.search(text)
    if found is None:
        raise InvalidInput("the reply states no number")
    rating = float(found[1])
    if not 0 <= rating <= top:
        raise InvalidInput(f"the reply states {found[1]}, outside 0 to {scale}")
    return rating / top


def _text(text: Any) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"the reply is {type(text).__name__}, not text")
    return text


def _unfenced(reply: str) -> str:
    """What stands in a code fence around the whole reply, where there is one."""
    fence = FENCE.match(reply)
    if fence and len(reply) >= fence.end() + len(fence[1]) and reply.endswith(fence[1]):
        return reply[fence.end() : -len(fence[1])]
    return reply


def _confidence(label: Any, value: Any) -> float:
    return fraction(f"the confidence of {label!r}", real_number(f"the confidence of {label!r}", value))


def _without_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for label, value in pairs:
        if label in values:
            raise InvalidInput(f"the reply names {label!r} twice")
        values[label] = value
    return values


def _no_constant(word: str) -> NoReturn:
    raise InvalidInput(f"the reply holds {word}, which JSON does not have")
