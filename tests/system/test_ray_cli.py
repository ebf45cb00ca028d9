"""The same applications by Ray's own commands: `serve deploy` on a running cluster."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest
import yaml

from demur.calibration_store.store import ArtifactStore
from demur.serve.local.reaper import end_run
from tests.conftest import ROOT, digit_rows
from tests.system.conftest import free_port

pytestmark = [pytest.mark.slow, pytest.mark.long]


STARTS = 4
"""Tries: `ray start` gives up after half a minute, whatever the machine has to do beside it."""


@pytest.fixture
def cluster():
    """A Ray cluster of one node, with the addresses of its parts."""
    folder = Path(tempfile.mkdtemp(prefix="demur-ray-"))
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled"}

    def run(*words, **more):
        return subprocess.run(
            [scripts / words[0], *words[1:]], cwd=ROOT, env=environment, capture_output=True, text=True, **more
        )

    def ray(*words, **more):
        done = run(*words, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    port, dashboard_port = free_port(), free_port()
    head = ["ray", "start", "--head", "--num-cpus=8", f"--port={port}", f"--dashboard-port={dashboard_port}"]
    for _ in range(STARTS):
        if (started := run(*head, f"--temp-dir={folder}")).returncode == 0:
            break
        end_run(str(folder))
        folder = Path(tempfile.mkdtemp(prefix="demur-ray-"))
    assert "started" in started.stdout, started.stdout + started.stderr
    environment["RAY_ADDRESS"] = f"127.0.0.1:{port}"
    environment["RAY_DASHBOARD_ADDRESS"] = f"http://127.0.0.1:{dashboard_port}"
    yield ray
    end_run(str(folder))  # `ray stop` would stop every Ray of this machine


def wait_for_health(url):
    deadline = time.monotonic() + 300  # on a busy machine a start takes minutes
    while True:
        try:
            if (response := httpx.get(f"{url}/healthz", timeout=5)).status_code == 200:
                return response.json()
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_serve_deploy(cluster, dsn, quickstart_content, digits, tmp_path):
    applications = [
        {"name": name, "import_path": f"demur.serve.app:{builder}", "route_prefix": prefix, "args": quickstart_content}
        for name, builder, prefix in (("demur", "build", "/"), ("demur-console", "build_console", "/review"))
    ]
    quickstart_content["database"] = dsn
    document = {"http_options": {"host": "127.0.0.1", "port": 28000}, "applications": applications}
    (tmp_path / "serve.yaml").write_text(yaml.safe_dump(document))
    cluster("serve", "deploy", str(tmp_path / "serve.yaml"))
    url = "http://127.0.0.1:28000"
    assert wait_for_health(url)["models"]["digits"]["artifact"] == ArtifactStore(
        quickstart_content["artifacts"]
    ).name_in_force("digits")
    row = digit_rows(digits)[0]
    answer = httpx.post(f"{url}/v1/predict", json={"model": "digits", "input": row["input"]}, timeout=30).json()
    assert answer["prediction"] == row["label"]
    assert "Who is reviewing?" in httpx.get(f"{url}/review/", timeout=30).text


@pytest.mark.long  # one start of many that are alike
def test_serve_run(cluster, dsn, quickstart_content, digits, tmp_path):
    """One application has it all, at the port that Serve was started with."""
    quickstart_content["database"] = dsn
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(quickstart_content))
    cluster("serve", "start", "--http-host=127.0.0.1", "--http-port=28001")
    cluster("serve", "run", "--non-blocking", "demur.serve.app:build", f"config={tmp_path / 'demur.yaml'}")
    url = "http://127.0.0.1:28001"
    assert wait_for_health(url)["status"] == "ok"
    row = digit_rows(digits)[0]
    answer = httpx.post(f"{url}/v1/predict", json={"model": "digits", "input": row["input"]}, timeout=30).json()
    assert answer["prediction"] == row["label"]
    assert "Who is reviewing?" in httpx.get(f"{url}/review/", timeout=30).text
    assert httpx.get(f"{url}/audit/", timeout=30).status_code == 200
    assert httpx.get(f"{url}/docs", timeout=30).status_code == 200
    evil = {"Host": "evil.example"}  # each part looks at the name for itself
    assert [httpx.get(f"{url}{path}", headers=evil, timeout=30).status_code for path in PATHS] == [403] * len(PATHS)


PATHS = ("/healthz", "/review/", "/review/v1/cases", "/audit/", "/audit/v1/reports")


@pytest.fixture
def quickstart_content(own, tmp_path):
    """The quickstart as the argument of a builder, with an artifact in its store."""
    own.use_fitted()
    if not (own.folder / "var/artifacts/digits").exists():
        own.run_here("fit", "digits", "--promote")
    content = yaml.safe_load((own.folder / "demur.yaml").read_text())
    content["artifacts"] = str(own.folder / "var/artifacts")
    content["data"] = str(tmp_path / "var")
    content["access"] = {"mode": "open"}  # on a cluster it must be said
    content["http"] = {}
    return content
