"""`demur alarms`: listing and undoing, on a real database."""

import pytest
import yaml
from typer.testing import CliRunner

from demur.audit.state import alarms
from demur.audit.state.alarms import AlarmKind, AlarmNotFound, OnAlarm
from demur.serve.cli import app
from demur.serve.commands.terminal import out
from tests.conftest import ROOT


@pytest.fixture
def demur(tmp_path, database, dsn, monkeypatch):
    content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    content["database"] = dsn
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(out, "_width", 300)

    def run(*words):
        return CliRunner().invoke(app, ["alarms", *words, "-c", str(tmp_path / "demur.yaml")], catch_exceptions=True)

    return run


def test_list_and_undo(demur, database):
    assert demur("list").output.strip() == "no alarm is on"
    with database.transaction() as connection:
        alarm = alarms.raise_alarm(
            connection,
            model="digits",
            artifact="digits-1",
            kind=AlarmKind.RISK,
            round=1,
            words="more answers are wrong than was promised",
            evidence={},
            action=OnAlarm.TIGHTEN,
            floor=0.95,
        )
    listed = demur("list").output
    assert "tighten below 0.95" in listed
    assert "more answers are wrong than was promised" in listed
    assert demur("undo", str(alarm.id), "--why", "  ").exit_code == 2
    assert demur("undo", str(alarm.id)).exit_code == 2  # without a reason nothing is undone
    said = demur("undo", str(alarm.id), "--why", "mended", "--by", "ada").output
    assert said.strip() == f"alarm {alarm.id} about model digits is undone by ada: mended"
    assert demur("list").output.strip() == "no alarm is on"
    assert "by ada: mended" in demur("list", "--all").output
    again = demur("undo", str(alarm.id), "--why", "mended")
    assert isinstance(again.exception, AlarmNotFound)
