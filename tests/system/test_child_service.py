"""`demur.start_service`: a service beside a program, with what it needs, and gone with it."""

import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

import demur
from demur.serve.local.child_service import CommandFailed, ServiceNotStarted
from tests.system.conftest import PATIENCE_SECONDS, START_SECONDS

pytestmark = pytest.mark.slow

CONFIG = {
    "models": {
        "vendor": {
            "task": {"kind": "multiclass", "labels": ["yes", "no"]},
            "host": {"kind": "given", "gives": ["probabilities"]},
            "scores": ["softmax_response"],
            "confidence": {"score": "softmax_response"},
            "policy": {"kind": "threshold", "limit": 0.7},
            "calibration": {"data": "rows.jsonl"},
        }
    }
}


@pytest.fixture
def rows(tmp_path):
    """A folder with labelled rows in it."""
    lines = [
        json.dumps({"probabilities": [p, 1 - p], "label": "yes" if (i % 10) < 10 * p else "no"})
        for i, p in enumerate([0.05, 0.3, 0.6, 0.95] * 50)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_a_service_beside_a_program(rows, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in Jupyter
    with demur.start_service(CONFIG, folder=rows, timeout=START_SECONDS) as service:
        sure = service.client.predict("vendor", None, output={"probabilities": [0.99, 0.01]})
        assert sure.answered
        assert service.client.predict("vendor", None, output={"probabilities": [0.5, 0.5]}).abstained
        listed = service.run("artifacts", "list")
        assert "vendor" in listed
        assert "\x1b" not in listed
        with pytest.raises(CommandFailed, match="demur audit --model nobody ended with"):
            service.run("audit", "--model", "nobody")
        assert "stop with Ctrl-C" in service.said()
    service.stop()
    assert repr(service).endswith("stopped>")
    assert service.said().strip().endswith("stopped")
    assert (rows / "var/artifacts").is_dir()


def test_what_cannot_start_says_why(tmp_path):
    with pytest.raises(ServiceNotStarted, match="polciy"):
        demur.start_service({"models": {"vendor": {"polciy": {}}}})
    (tmp_path / "demur.yaml").write_text("models: [")
    with pytest.raises(ServiceNotStarted, match=r"demur\.yaml"):
        demur.start_service(tmp_path / "demur.yaml")
    with pytest.raises(FileNotFoundError):
        demur.start_service(tmp_path / "nowhere.yaml")


@pytest.mark.long  # one start of many that are alike
def test_it_ends_when_its_program_is_killed(rows):
    start = f"import demur, time; demur.start_service({CONFIG!r}, folder={str(rows)!r})"
    code = f"{start}; print('up', flush=True); time.sleep(999)"
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "up\n"
        below = psutil.Process(program.pid).children(recursive=True)
        assert any("demur" in one.cmdline() for one in below)
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
        program.stdout.close()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := [one for one in below if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
