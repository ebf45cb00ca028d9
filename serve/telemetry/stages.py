"""Parts of the work that a trace tells apart. Nothing is imported and next to nothing paid where nothing is traced."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar

STAGES: ContextVar[Callable[[str], AbstractContextManager[object]] | None] = ContextVar("demur_stages", default=None)
"""Opens a span with this name; set where something is traced."""

TRACEPARENT: ContextVar[str | None] = ContextVar("demur_traceparent", default=None)
"""What a model's host is told of the trace that its work belongs to, as W3C has it."""

UNTRACED = nullcontext()


def stage(name: str) -> AbstractContextManager[object]:
    """The time within is a span, if this is traced."""
    opened = STAGES.get()
    return opened(name) if opened else UNTRACED
