"""The traces of one process, where they are configured."""

from typing import TYPE_CHECKING

from demur.serve.config.file import Config

if TYPE_CHECKING:
    from demur.serve.telemetry.traces import Traces


def traces_of(config: Config, *, part: str) -> "Traces | None":
    if config.telemetry.traces is None:
        return None
    from demur.serve.telemetry.traces import Traces  # brings OpenTelemetry

    return Traces(config.telemetry.traces, part=part)
