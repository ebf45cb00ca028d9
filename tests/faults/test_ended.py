"""A start that is interrupted or never ends, and a service that is killed: nothing is left behind."""

import os
import signal
import time
from contextlib import suppress

import httpx
import psutil
import pytest

from demur.serve.local.reaper import processes_of
from tests.conftest import digit_rows
from tests.system.conftest import PATIENCE_SECONDS, alive, wait_until, write

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def nothing_is_left(service, folder):
    """Neither processes nor sockets nor the folder of a start."""
    wait_until(lambda: not folder.exists() and processes_of(str(folder)) == [], why=lambda: processes_of(str(folder)))
    pid_file = service.folder / "var/postgres/postmaster.pid"
    wait_until(lambda: not pid_file.exists(), why=pid_file.read_text)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.url}/healthz")


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("starting PostgreSQL", signal.SIGINT),
        ("fitting one on", signal.SIGTERM),
        ("starting Ray", signal.SIGINT),
        ("is in force", signal.SIGTERM),
        ("starting the pages", signal.SIGINT),
    ],
)
def test_a_start_ends_at_any_moment_and_leaves_nothing(own, said, number):
    if said != "fitting one on":
        own.use_fitted()
    own.begin()
    wait_until(lambda: said in own.said(), patience=400, why=own.said)
    folder = own.run_folder
    began = time.monotonic()
    os.kill(own.process.pid, number)
    own.process.wait(timeout=PATIENCE_SECONDS)
    print(f"after {said!r} it ended in {time.monotonic() - began:.1f} s with {own.process.returncode}")
    nothing_is_left(own, folder)
    assert "Traceback" not in own.said()


def test_a_service_that_is_killed_leaves_nothing_or_the_next_start_clears_away(own, digits):
    own.start()
    folder = own.run_folder
    row = digit_rows(digits)[0]
    answer = httpx.post(f"{own.url}/v1/predict", json={"model": "digits", "input": row["input"]}, timeout=60).json()
    began = time.monotonic()
    own.process.kill()
    own.process.wait()
    nothing_is_left(own, folder)
    print(f"nothing was left after {time.monotonic() - began:.1f} s")

    own.start()
    assert "was not stopped cleanly" in own.said()
    prediction = httpx.get(f"{own.url}/v1/predictions/{answer['id']}", timeout=60).json()["prediction"]
    assert prediction == answer["prediction"]
    folder = own.run_folder
    reapers = [process.pid for process in psutil.process_iter() if _is_reaper(process, folder)]
    doomed = [own.process.pid, *reapers]
    assert len(doomed) == 2
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)
    own.process.wait()
    assert folder.exists()

    own.start()
    assert not folder.exists()
    assert own.run_folder != folder
    before = own.processes()
    told = len(own.said().splitlines())
    os.kill(own.process.pid, signal.SIGTERM)
    assert own.process.wait(timeout=PATIENCE_SECONDS) == 0
    assert own.said().splitlines()[told:] == ["stopping Ray ...", "stopping the database ...", "stopped"]
    with suppress(psutil.Error):
        assert alive(before) == []


def _is_reaper(process, folder):
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return str(folder) in words and any(word.endswith("reaper.py") for word in words)


def test_a_model_that_loads_for_ever_is_given_up_after_its_time(own):
    own.use_fitted()
    write(own, lambda content: content.update(start_seconds=40))
    own.begin()
    deadline = time.monotonic() + 400
    while own.process.poll() is None:
        for host in _hosts(own):
            with suppress(psutil.Error):
                host.suspend()  # before it has loaded anything
        assert time.monotonic() < deadline, own.said()
        time.sleep(0.05)
    assert own.process.returncode == 1
    assert "demur: " in own.said().splitlines()[-1]
    assert " after 40 s; set start_seconds higher" in own.said().splitlines()[-1]


def _hosts(service):
    """The processes in which the model is loaded."""
    try:
        children = psutil.Process(service.process.pid).children(recursive=True)
    except psutil.Error:
        return []
    return [process for process in children if _title(process).startswith("ray::ServeReplica:demur:host-digits")]


def _title(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
