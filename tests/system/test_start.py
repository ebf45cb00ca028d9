"""A start that is interrupted, killed, cannot succeed, or succeeds in part: it says why, and leaves nothing behind."""

import os
import shutil
import signal
import time
from contextlib import suppress

import httpx
import psutil
import pytest
import yaml

from serve.local.reaper import processes_of
from tests.conftest import digit_rows
from tests.system.conftest import Service, alive

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 60
"""On a busy machine everything takes several times as long; docs/reliability.md has what a quiet one took."""


@pytest.fixture
def own(digits):
    """A service of one's own, which is not started yet."""
    running = Service(digits)
    try:
        yield running
    finally:
        running.remove()


def write(service, edit):
    path = service.folder / "demur.yaml"
    content = yaml.safe_load(path.read_text())
    edit(content)
    path.write_text(yaml.safe_dump(content))


def wait_until(true, *, patience=PATIENCE_SECONDS, why=str):
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


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


def test_models_that_cannot_be_served_take_nobody_down(own, digits):
    def edit(content):
        digit = content["models"]["digits"]
        content["models"]["gone"] = {**digit, "host": {**digit["host"], "checkpoint": "/nowhere/at/all"}}
        content["models"]["fast"] = {**digit, "host": {**digit["host"], "gpus": 64, "device": "cuda"}}
        content["models"]["bold"] = {**digit, "policy": {"kind": "selective_risk", "max_risk": 0.0001}}

    write(own, edit)
    own.start(patience=600)
    said = own.said()
    for name in ("gone", "fast", "bold"):
        assert f"model {name!r} does not serve, and its requests get a 503:" in said
    health = httpx.get(f"{own.url}/healthz", timeout=60)
    assert (health.status_code, health.json()["status"]) == (200, "degraded")
    assert sorted(health.json()["not_serving"]) == ["bold", "fast", "gone"]
    assert httpx.get(f"{own.url}/healthz?strict", timeout=60).status_code == 503
    body = {"input": digit_rows(digits)[0]["input"]}
    reasons = {}
    for name in ("digits", "gone", "fast", "bold"):
        answer = httpx.post(f"{own.url}/v1/predict", json={"model": name, **body}, timeout=60)
        assert answer.status_code == (200 if name == "digits" else 503), answer.text
        reasons[name] = answer.json().get("error", {}).get("message", "")
    assert "/nowhere/at/all" in reasons["gone"]
    assert "64 GPUs" in reasons["fast"]
    assert "model 'fast' yet: fitting one" not in said
    assert "its first fit, on calibration.jsonl, failed: with " in reasons["bold"]


def test_a_service_none_of_whose_models_can_be_served_says_why_and_ends(own):
    write(own, lambda content: content["models"]["digits"]["host"].update(gpus=64, device="cuda"))
    own.begin()
    own.process.wait(timeout=300)
    assert own.process.returncode == 1
    last = own.said().splitlines()[-1]
    assert last.startswith("demur: model 'digits': host.gpus: it asks for 64 GPUs, and this machine has ")
    assert "fitting one" not in own.said()
    assert "Traceback" not in own.said()


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


def test_an_edited_policy_that_is_not_in_force_is_refused_and_can_be_allowed(own, digits):
    own.start()
    own.interrupt()
    write(own, lambda content: content["models"]["digits"]["policy"].update(max_risk=0.001))
    own.begin()
    assert own.process.wait(timeout=300) == 1
    last = own.said().splitlines()[-1]
    assert "policy.max_risk is 0.001, and 0.002 in the artifact" in last
    assert "`demur fit digits --promote`" in last
    assert "--with-older-artifact" in last
    own.start("--with-older-artifact")
    assert "fitted with other settings than are configured" in own.said()
    (told,) = httpx.get(f"{own.url}/healthz", timeout=60).json()["models"]["digits"]["differs"]
    assert told.startswith("policy.max_risk is 0.001")
    body = {"model": "digits", "input": digit_rows(digits)[0]["input"]}
    answer = httpx.post(f"{own.url}/v1/predict", json=body, timeout=60).json()
    assert answer["reason"].endswith("; fitted with other settings than are configured: policy.max_risk")
    own.run("fit", "digits", "--promote")
    wait_until(lambda: httpx.get(f"{own.url}/healthz", timeout=60).json()["models"]["digits"]["differs"] == [])


def test_a_data_folder_that_is_deleted_ends_the_service_at_once_with_one_sentence(own):
    own.start()
    before = own.processes()
    shutil.rmtree(own.folder / "var")
    assert own.process.wait(timeout=PATIENCE_SECONDS) == 1
    assert "was deleted or replaced while the service used it" in own.said().splitlines()[-1]
    assert "Traceback" not in own.said()
    assert alive(before) == []
