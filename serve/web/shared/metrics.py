"""/metrics of an application, for Prometheus: read whenever it is asked for."""

from collections.abc import Sequence

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from demur.serve.web.errors import status_of
from demur.traffic.database import DatabaseUnavailable


def add_metrics_route(app: FastAPI, collectors: Sequence[Collector]) -> None:
    """Serve what these collect, in a registry of their own. Each one must `describe` itself without the database,
    which may be away when the service starts."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)

    @app.get("/metrics", include_in_schema=False)
    def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        try:
            return Response(encode(registry), media_type=content_type)
        except DatabaseUnavailable as error:
            return PlainTextResponse(f"{error}\n", status_of(error))
