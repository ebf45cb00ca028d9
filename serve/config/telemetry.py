"""What the service tells of itself: `telemetry` in the configuration."""

from importlib.util import find_spec
from typing import Literal

from pydantic import Field, model_validator

from demur.serve.config.pydantic_words import written_as
from demur.serve.config.settings import Section

LogKind = Literal["text", "json"]


class TracesConfig(Section):
    """Where traces of OpenTelemetry go."""

    endpoint: str = written_as(r"^https?://.+", "write an address such as http://127.0.0.1:4318/v1/traces")
    """Of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces. What it wants for a password
    comes from the environment, OTEL_EXPORTER_OTLP_HEADERS."""

    share: float = Field(default=1.0, ge=0, le=1)
    """Of the requests whose callers say nothing of a trace, those that are traced."""

    @model_validator(mode="after")
    def exporter_is_installed(self) -> "TracesConfig":
        if find_spec("opentelemetry.exporter.otlp") is None:
            raise ValueError("nothing is installed that sends traces: pip install 'demur[otel]'")
        return self


class TelemetryConfig(Section):
    """Metrics, logs and traces."""

    metrics_port: int | None = Field(default=None, ge=1024, le=65535)
    """Where Ray's agent on this machine answers Prometheus. By default `demur up` starts none. `ray start` has an
    option of its own for the port."""

    logs: LogKind = "text"
    """Text for people at a terminal, or one JSON object in each line."""

    access_log: bool = False
    """A line for each HTTP request at the gateway."""

    traces: TracesConfig | None = None
    """None: nothing is traced, and no SDK of OpenTelemetry imported."""
