"""`demur alarms`: listing and undoing, on a real database."""

from datetime import UTC, datetime, timedelta

import pytest
import yaml
from typer.testing import CliRunner

from demur.audit.state import alarms
from demur.audit.state.alarms import AlarmKind, AlarmNotFound, OnAlarm
from demur.serve.cli import app
from demur.serve.commands.terminal import out
from demur.serve.config.file import BadConfig
from demur.traffic import log
from tests.conftest import ROOT, entry


@pytest.fixture
def demur(tmp_path, database, dsn, monkeypatch):
    content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    content["database"] = dsn
    content["artifacts"] = str(tmp_path / "artifacts")
    content["models"]["digits"] |= {"spot_check": 0.05, "monitor": {"max_risk": 0.1}}
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


@pytest.mark.slow
def test_the_rate_that_finds_a_rise_in_time(demur, database):
    assert isinstance(demur("plan", "digits").exception, BadConfig)  # nothing is known of its traffic
    said = demur("plan", "digits", "--per-day", "500", "--risk", "0.5", "--quiet-days", "5").output
    assert "a rise from 0.05 to 0.5 of the answers wrong, where 0.1 are allowed: half of the alarms come" in said
    assert "28% fewer answers in simulations where errors follow confidence" in said
    assert "configured is 0.05" in said
    entries = [
        entry(action="answer", model="digits", created_at=datetime.now(UTC) - timedelta(hours=n)) for n in range(1, 49)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
    assert "24 answers a day are too few" in demur("plan", "digits", "--days", "0.1", "--quiet-days", "5").output
    wrong = demur("plan", "digits", "--per-day", "500", "--risk", "0.01")
    assert "no alarm is due" in str(wrong.exception)


def test_where_nothing_says_what_may_be_wrong_there_is_no_plan(demur, tmp_path):
    path = tmp_path / "demur.yaml"
    content = yaml.safe_load(path.read_text())
    del content["models"]["digits"]["monitor"]
    path.write_text(yaml.safe_dump(content))
    assert "set `monitor.max_risk`, or" in str(demur("plan", "digits", "--per-day", "500").exception)
