"""The HTTP request that is being answered: its id, for every line of the log that belongs to it."""

from contextvars import ContextVar
from typing import Any

from demur.serve.telemetry.telemetry import Telemetry


class RequestContext:
    """One HTTP request at the gateway. Tasks that work for it find it in `VISIT`."""

    __slots__ = ("request_id", "span", "telemetry", "trace_id")

    def __init__(self, request_id: str, telemetry: Telemetry) -> None:
        self.request_id = request_id
        self.telemetry = telemetry
        self.trace_id = ""
        self.span: Any = None
        """Of OpenTelemetry, where it is traced."""


VISIT: ContextVar[RequestContext | None] = ContextVar("demur_visit", default=None)
"""None in what is done for many requests at a time, or for none."""


def tell(kind: str) -> None:
    """Count an error of which a caller of the gateway is told."""
    if visit := VISIT.get():
        visit.telemetry.told(kind)
