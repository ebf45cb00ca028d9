"""What runs in the place of a helper of Ray becomes the helper when it is asked, and ends with its parent."""

import socket
import subprocess
import sys
import time

import psutil
import pytest

from demur.serve.local import stand_in

STAND_IN = [sys.executable, "-I", "-S", stand_in.__file__]
PATIENCE_SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.slow
def test_it_becomes_the_helper_with_its_arguments_once_it_is_asked(tmp_path):
    helper, port = tmp_path / "main.py", free_port()
    helper.write_text("import sys; print(sys.argv[1:])")
    words = [str(helper), "--node-ip-address=127.0.0.1", f"--runtime-env-agent-port={port}", "--more"]
    process = subprocess.Popen([*STAND_IN, *words], stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            assert time.monotonic() < until
            time.sleep(0.05)
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert said.strip() == str(words[1:])


@pytest.mark.slow
def test_it_ends_with_its_parent(tmp_path):
    words = [*STAND_IN, "agent.py"]
    code = f"import subprocess, time; print(subprocess.Popen({words!r}, stdout=-3).pid, flush=True); time.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    process = psutil.Process(int(parent.stdout.readline()))
    time.sleep(1)
    assert process.is_running()
    parent.kill()
    parent.communicate()
    process.wait(PATIENCE_SECONDS)
