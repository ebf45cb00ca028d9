"""What is known against the locked packages is told, argued away for a time, or plainly not looked up."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from locks import vulnerabilities
from locks.vulnerabilities import main, read_exceptions

BAD = {"jinja2": "2.4.1", "leaky": "1.0"}


class Service(BaseHTTPRequestHandler):
    """Speaks like osv.dev, and knows two bad packages."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked["package"]["name"]
        found = {
            "id": f"TEST-{name}",
            "aliases": [f"CVE-{name}"],
            "summary": "bad",
            "affected": [{"package": {"name": name, "ecosystem": "PyPI"}, "ranges": [], "versions": []}],
        }
        told = json.dumps({"vulns": [found]} if BAD.get(name) == asked["version"] else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(vulnerabilities, "SERVICES", ("osv",))
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()
        thread.join()


def locks(folder: Path, pin: str, exceptions: str = "") -> Path:
    (folder / "run.txt").write_text(f"{pin} \\\n    --hash=sha256:{'0' * 64}\n")
    (folder / "exceptions.txt").write_text(exceptions)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pin", "exceptions", "status", "told"),
    [
        ("leaky==1.1", "", 0, "0 known against 1 locked packages"),
        ("leaky==1.0", "", 1, "leaky 1.0: CVE-leaky"),
        ("leaky==1.0", "CVE-leaky until 2999-01-01: we never pour", 0, "argued: we never pour"),
    ],
)
def test_what_is_known_fails_unless_it_is_argued_away(
    service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], pin: str, exceptions: str, status: int, told: str
) -> None:
    assert main(["--locks", str(locks(tmp_path, pin, exceptions)), "--osv-url", service]) == status
    assert told in capsys.readouterr().out


@pytest.mark.slow
def test_a_service_that_knows_nothing_is_not_believed(
    service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vulnerabilities, "KNOWN_BAD", "jinja2==3.0.0")
    arguments = ["--locks", str(locks(tmp_path, "leaky==1.0")), "--osv-url", service]
    assert main(arguments) == 0
    assert "NOT CHECKED" in capsys.readouterr().out
    assert main([*arguments, "--required"]) == 1


def test_an_argument_lasts_until_its_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--locks", str(locks(tmp_path, "leaky==1.0", "CVE-leaky until 2020-01-01: for now"))]) == 1
    assert "CVE-leaky" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["CVE-1", "CVE-1 until tomorrow: x", "CVE-1 until 2999-01-01:"])
def test_an_exception_needs_a_day_and_a_reason(line: str) -> None:
    with pytest.raises(ValueError, match=r"until|isoformat"):
        read_exceptions(line)
