"""Signs of hesitation in a reasoning trace, counted (GAP 5.2, appendix D)."""

import re
from dataclasses import dataclass
from typing import Any

from demur.uncertainty.checks import Array, InvalidInput, finite, whole_number

QUESTIONS = re.compile("[?\uff1f]+")
WAIT = re.compile(r"\bwait\b", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class TraceFeatures:
    """Counts over one trace."""

    tokens: int
    questions: int
    """Runs of question marks, so that "??" is one."""

    waits: int
    """The whole word "wait", in any case."""

    def row(self) -> Array:
        """[3], in the order in which the trace scores are fitted."""
        return finite("trace", [self.tokens, self.questions, self.waits])


def trace_features(text: Any, n_tokens: Any = None) -> TraceFeatures:
    """Count inside the first <think>...</think> of `text`, or in all of it without one. An empty trace has zeros.

    `n_tokens` is the tokenizer's count; without it words are counted.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"text is {type(text).__name__}, not text")
    thought, closed, _ = text.partition("<think>")[2].partition("</think>")
    trace = thought if closed else text
    return TraceFeatures(
        tokens=len(trace.split()) if n_tokens is None else whole_number("n_tokens", n_tokens),
        questions=len(QUESTIONS.findall(trace)),
        waits=len(WAIT.findall(trace)),
    )
