"""The first artifact of a model: fitted where there is data, and where that fails the model is served without."""

import io
import json
import subprocess
import sys
import threading

import pytest
import yaml

from demur.serve.config.file import Config
from demur.serve.local.first_fit import first_fit
from demur.serve.telemetry.logs import JsonStream


def never():
    return False


@pytest.fixture
def bare(quickstart, tmp_path):
    """The quickstart with an empty store and nothing to fit from."""
    model = quickstart.models["digits"]
    model = model.model_copy(update={"calibration": model.calibration.model_copy(update={"data": None})})
    return quickstart.model_copy(update={"artifacts": str(tmp_path), "models": {"digits": model}})


def test_without_artifact_and_data_it_says_what_to_run(bare, tmp_path):
    said = []
    assert first_fit(bare, tmp_path / "demur.yaml", "digits", said.append, never) == ""
    assert len(said) == 1
    assert said[0].startswith("no artifact is in force for model 'digits', and its requests will get a 503")
    assert "demur fit digits --data FILE --promote" in said[0]


def test_with_an_artifact_it_says_nothing(quickstart, tmp_path):
    said = []
    assert first_fit(quickstart, tmp_path / "demur.yaml", "digits", said.append, never) == ""
    assert said == []


@pytest.mark.slow
def test_a_fit_that_labels_cannot_carry_is_told_and_nothing_else_stops(quickstart, tmp_path, capfd):
    content = quickstart.model_dump(mode="json")
    content["artifacts"] = str(tmp_path / "artifacts")
    content["models"]["digits"]["policy"] = {"kind": "selective_risk", "max_risk": 0.005}
    path = tmp_path / "demur.yaml"
    path.write_text(yaml.safe_dump(content))
    said = []
    why = first_fit(Config.model_validate(content), path, "digits", said.append, never)
    assert why.startswith("its first fit, on calibration.jsonl, failed: with ")
    assert "label at least 996 rows" in why
    assert "is served without an artifact" in said[-1]
    assert "label at least 996 rows" in capfd.readouterr().err


def fitting_is(monkeypatch, program):
    """Let this program run in the place of `demur fit`."""

    class Fit(subprocess.Popen):
        def __init__(self, command, **options):
            super().__init__([sys.executable, "-c", program], **options)

    monkeypatch.setattr(subprocess, "Popen", Fit)


def test_what_a_fit_says_is_json_as_well_where_logs_are(quickstart, tmp_path, monkeypatch):
    written = io.StringIO()
    fitting_is(monkeypatch, "print('1 of 2'); print('2 of 2')")
    monkeypatch.setattr(sys, "stdout", JsonStream(written, "demur.up"))
    logs = {"artifacts": str(tmp_path), "telemetry": quickstart.telemetry.model_copy(update={"logs": "json"})}
    assert first_fit(quickstart.model_copy(update=logs), tmp_path / "demur.yaml", "digits", lambda _: None, never) == ""
    for thread in threading.enumerate():
        if thread.name == "fit":
            thread.join()
    assert [json.loads(line)["message"] for line in written.getvalue().splitlines()] == ["1 of 2", "2 of 2"]


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("raise ValueError('no such device')", "ValueError: no such device"),
        ("import sys; sys.exit('demur: too few rows')", "too few rows"),
        ("import os; os._exit(3)", "it ended without a word"),
    ],
)
def test_of_a_fit_that_fails_the_last_word_is_kept(quickstart, tmp_path, monkeypatch, program, why):
    fitting_is(monkeypatch, program)
    empty = quickstart.model_copy(update={"artifacts": str(tmp_path)})
    said = []
    told = first_fit(empty, tmp_path / "demur.yaml", "digits", said.append, never)
    assert told == f"its first fit, on calibration.jsonl, failed: {why}"
    assert "is served without an artifact" in said[-1]


def test_a_fit_ends_with_the_start(quickstart, tmp_path, monkeypatch):
    fitting_is(monkeypatch, "import time; time.sleep(600)")
    empty = quickstart.model_copy(update={"artifacts": str(tmp_path)})
    said = []
    assert first_fit(empty, tmp_path / "demur.yaml", "digits", said.append, lambda: True) == ""
    assert not any("failed" in sentence for sentence in said)
