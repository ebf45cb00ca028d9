"""What `demur up` says and checks before Ray starts. The whole of it is tested in tests/system."""

import io
import json
import os
import subprocess
import sys
import threading

import httpx
import pytest
import yaml

from serve.commands import up
from serve.config.file import Config
from serve.telemetry.logs import JsonStream


@pytest.fixture
def bare(quickstart, tmp_path):
    """The quickstart with an empty store and nothing to fit from."""
    model = quickstart.models["digits"]
    model = model.model_copy(update={"calibration": model.calibration.model_copy(update={"data": None})})
    return quickstart.model_copy(update={"artifacts": str(tmp_path), "models": {"digits": model}})


def test_without_artifact_and_data_it_says_what_to_run_and_goes_on(bare, tmp_path):
    said = []
    up._artifact(bare, tmp_path / "demur.yaml", "digits", said.append, threading.Event())
    assert len(said) == 1
    assert said[0].startswith("no artifact is in force for model 'digits', and its requests will get a 503")
    assert "demur fit digits --data FILE --promote" in said[0]


@pytest.mark.slow
def test_a_first_fit_that_labels_cannot_carry_says_so_and_nothing_starts(quickstart, tmp_path, capfd):
    content = quickstart.model_dump(mode="json")
    content["artifacts"] = str(tmp_path / "artifacts")
    content["models"]["digits"]["policy"] = {"kind": "selective_risk", "max_risk": 0.01}
    path = tmp_path / "demur.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(up.CannotStart, match=r"could not be fitted on .*; see above"):
        up._artifact(Config.model_validate(content), path, "digits", lambda _: None, threading.Event())
    assert "label at least 3,575 rows" in capfd.readouterr().err


def test_what_a_first_fit_says_is_json_as_well_where_logs_are(quickstart, tmp_path, monkeypatch):
    class Told(subprocess.Popen):
        def __init__(self, command, **options):
            super().__init__([sys.executable, "-c", "print('1 of 2'); print('2 of 2')"], **options)

    written = io.StringIO()
    monkeypatch.setattr(subprocess, "Popen", Told)
    monkeypatch.setattr(sys, "stdout", JsonStream(written, "demur.up"))
    logs = {"artifacts": str(tmp_path), "telemetry": quickstart.telemetry.model_copy(update={"logs": "json"})}
    up._artifact(
        quickstart.model_copy(update=logs), tmp_path / "demur.yaml", "digits", lambda _: None, threading.Event()
    )
    for thread in threading.enumerate():
        if thread.name == "fit":
            thread.join()
    assert [json.loads(line)["message"] for line in written.getvalue().splitlines()] == ["1 of 2", "2 of 2"]


def test_with_an_artifact_it_says_nothing(quickstart, tmp_path):
    said = []
    up._artifact(quickstart, tmp_path / "demur.yaml", "digits", said.append, threading.Event())
    assert said == []


def test_the_example_is_one_that_the_model_takes(quickstart, bare):
    assert up._example(quickstart.models["digits"]).startswith("data:image/png;base64,")
    assert up._example(bare.models["digits"]) == "a text to classify"


def test_a_lock_that_was_left_behind_is_said_and_taken_over(tmp_path):
    (tmp_path / "demur.lock").write_text("12345")
    said = []
    with up._only_one(tmp_path, said.append):
        assert "pid 12345" in said[0]
        with pytest.raises(up.CannotStart, match="already running"), up._only_one(tmp_path, said.append):
            pass
    assert (tmp_path / "demur.lock").read_text() == ""
    with up._only_one(tmp_path, said.append):
        assert len(said) == 1


def test_a_ray_that_is_joined_is_left_as_it_is(monkeypatch):
    monkeypatch.setattr(os, "environ", {"RAY_ADDRESS": "auto"})
    up.set_environment()
    assert dict(os.environ) == {"RAY_ADDRESS": "auto"}


def test_what_is_set_in_the_environment_stays(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name in up.ENVIRONMENT:
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("RAY_SERVE_ENABLE_HA_PROXY", "0")
    monkeypatch.setenv("RAY_SERVE_HAPROXY_METRICS_PORT", "1")
    monkeypatch.setenv("RAY_SERVE_HAPROXY_STATS_PORT", "2")
    up.set_environment()
    assert {os.environ[name] for name in up.ENVIRONMENT} == {"mine"}
    assert os.environ["RAY_SERVE_ENABLE_HA_PROXY"] == "0"


def test_proxy_ports_lie_where_the_kernel_does_not_give_them_away():
    first, second = up._quiet_ports(2)
    assert 20_000 <= first < second < 32_000


@pytest.mark.parametrize("before", [404, 500])
def test_it_is_ready_when_the_pages_answer_too(monkeypatch, before):
    asked = []

    def get(url: str, **_) -> httpx.Response:
        asked.append(url.removeprefix("http://here"))
        if asked[-1] == "/healthz":
            return httpx.Response(200, json={"database": "ok", "models": {"digits": {"status": "ok"}}})
        return httpx.Response(before if asked.count(asked[-1]) == 1 else 303)

    monkeypatch.setattr(up.httpx, "get", get)
    up._wait_until_healthy("http://here", threading.Event(), {})
    assert {path: asked.count(path) for path in asked} == {"/healthz": 3, "/review/": 3, "/audit/": 2}


def test_pages_that_never_answer_are_told(monkeypatch):
    healthy = {"database": "ok", "models": {}}
    monkeypatch.setattr(
        up.httpx, "get", lambda url, **_: httpx.Response(200 if "healthz" in url else 404, json=healthy)
    )
    monkeypatch.setattr(up, "START_SECONDS", 0)
    with pytest.raises(up.CannotStart, match="the pages do not answer"):
        up._wait_until_healthy("http://here", threading.Event(), {})
