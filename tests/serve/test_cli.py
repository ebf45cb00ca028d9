"""The command line: what it prints, and that every foreseen problem is one sentence."""

import json
import socket
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from serve.cli import main, moment
from serve.config import BadConfig
from tests.conftest import ROOT


@pytest.fixture
def folder(tmp_path, digits, monkeypatch):
    """A working directory with a configuration for the digits."""
    content = yaml.safe_load((ROOT / "deploy/quickstart.yaml").read_text())
    content["models"]["digits"]["host"]["checkpoint"] = str(ROOT / "deploy/models/digits")
    content["models"]["digits"]["calibration"] = {"data": str(digits / "calibration.jsonl")}
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    return tmp_path


@pytest.fixture
def demur(monkeypatch, capsys):
    """Run a command; return what it printed, or the sentence that it ended with."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["demur", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        if isinstance(end.value.code, str):
            assert "\n" not in end.value.code
            return end.value.code
        assert end.value.code in (0, None), printed.err
        return printed.out

    return run


def change(folder, edit):
    path = folder / "demur.yaml"
    content = yaml.safe_load(path.read_text())
    edit(content)
    path.write_text(yaml.safe_dump(content))


def test_fit_report_promote_list_show_and_history(folder, demur):
    assert "artifact in force: none yet" in demur("check")
    printed = demur("fit", "digits")
    name = printed.split("demur artifacts promote digits ")[1].strip()
    assert "on 200 rows that the fit of 300 has not seen" in printed
    for line in ("before calibration", "cross-fitted", "AUROC", "mahalanobis", "selective_risk"):
        assert line in printed
    assert "is in force for digits (promotion 1)" in demur("artifacts", "promote", "digits", name, "--why", "a try")
    assert name in demur("artifacts", "list")
    assert json.loads(demur("artifacts", "show", "digits", name))["data"]["n"] == 500
    assert "a try" in demur("artifacts", "history", "digits")
    assert f"artifact in force: {name}" in demur("check")


def test_an_altered_artifact_is_listed_as_refused_and_not_promoted(folder, demur):
    name = demur("fit", "digits").split("promote digits ")[1].strip()
    arrays = folder / "var/artifacts/digits/artifacts" / name / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-1] + b"x")
    assert "refused" in demur("artifacts", "list")
    said = demur("artifacts", "promote", "digits", name)
    assert said == f"demur: artifact {name} was altered: its arrays are not those that were fitted; fit it again"


def test_help_names_every_command(demur):
    printed = demur("--help")
    for command in ("up", "check", "fit", "artifacts", "demo", "audit"):
        assert command in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "nowhere.yaml"], "demur: there is no configuration file nowhere.yaml"),
        (["fit", "nobody"], "demur: there is no model 'nobody' in the configuration; it has: digits"),
        (["fit", "digits", "--data", "nowhere.csv"], "demur: nowhere.csv: there is no such file"),
        (["artifacts", "promote", "digits", "digits-1"], "demur: there is no artifact 'digits-1' for model 'digits'"),
        (["audit", "--since", "yesterday"], "demur: 'yesterday' is neither an age like 7d"),
        (["audit"], "demur: there are no records of 'digits' in this range"),
        (["demo", "--data", "nowhere.jsonl"], "demur: nowhere.jsonl: there is no such file"),
    ],
)
def test_a_problem_is_one_sentence(folder, demur, words, said):
    assert demur(*words).startswith(said)


def test_the_demo_says_when_nobody_serves(folder, demur, digits):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        said = demur("demo", "--url", f"http://127.0.0.1:{taken.getsockname()[1]}", "--data", digits / "test.jsonl")
    assert "start it with `make run`" in said


def test_an_unknown_key_in_the_yaml(folder, demur):
    change(folder, lambda content: content.update(databse="embedded"))
    assert demur("up") == "demur: demur.yaml: databse: this key is not known; check its spelling and its place"


def test_a_label_list_that_does_not_fit_the_checkpoint(folder, demur):
    change(folder, lambda content: content["models"]["digits"]["task"]["labels"].pop())
    said = demur("up")
    assert said.startswith("demur: task.labels lists 9 labels, and ")
    assert "has 10 classes" in said


def test_a_checkpoint_that_is_not_there(folder, demur):
    change(folder, lambda content: content["models"]["digits"]["host"].update(checkpoint="./nowhere"))
    assert "'./nowhere' is neither a folder nor a model that a hub hands out" in demur("up")


def test_a_taken_port(folder, demur):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        change(folder, lambda content: content["http"].update(port=taken.getsockname()[1]))
        assert "is taken (Address already in use); stop what uses it, or set http.port" in demur("up")


def test_a_database_that_is_down_at_start(folder, demur):
    change(folder, lambda content: content.update(database="postgresql://ada:secret@127.0.0.1:9/demur"))
    said = demur("up")
    assert said.startswith("demur: PostgreSQL at 127.0.0.1:9/demur does not answer; start it, or correct")
    assert "secret" not in said


def test_a_missing_package(folder, demur, monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] in ("ray", "serve")]:
        if module not in ("serve", "serve.cli", "serve.config"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "psycopg_pool", None)
    monkeypatch.delitem(sys.modules, "traffic.database", raising=False)
    assert demur("up") == "demur: the package 'psycopg_pool' is missing; run `make setup`"


def test_moments():
    now = datetime.now(UTC)
    assert abs(moment("2h") - (now - timedelta(hours=2))) < timedelta(seconds=5)
    assert moment("2026-11-21T08:00") == datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert moment("2026-11-21T08:00+02:00").utcoffset() == timedelta(hours=2)
    assert moment(None) is None
    with pytest.raises(BadConfig):
        moment("soon")
