"""A collector of traces: a small HTTP server that takes what an OTLP exporter sends, and keeps it."""

import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """One span, as it came over the wire."""

    name: str
    part: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    links: tuple[str, ...]
    attributes: dict[str, object]


class Collector:
    """Use as a context manager."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            part = plain(resource.resource.attributes)["demur.part"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Span(
                            name=span.name,
                            part=part,
                            trace=span.trace_id.hex(),
                            id=span.span_id.hex(),
                            parent=span.parent_span_id.hex(),
                            start=span.start_time_unix_nano,
                            end=span.end_time_unix_nano,
                            links=tuple(link.span_id.hex() for link in span.links),
                            attributes=plain(span.attributes),
                        )
                    )

    def tree(self, root: str) -> dict[str, dict]:
        """The names of the spans below one, as they hang on each other."""
        return {span.name: self.tree(span.id) for span in self.spans if span.parent == root}

    def __enter__(self) -> "Collector":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def plain(attributes) -> dict[str, object]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
