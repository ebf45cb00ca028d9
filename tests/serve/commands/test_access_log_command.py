"""`demur access-log`: what it shows of a real database, and what it leaves out."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import typer
import yaml
from typer.testing import CliRunner

from demur.review import access
from demur.serve.commands.access_log import access_log
from demur.serve.config.file import BadConfig
from tests.conftest import ROOT

FIRST, SECOND = UUID(int=1), UUID(int=2)  # chance would spell a name now and then


@pytest.fixture
def demur_access_log(tmp_path, monkeypatch, dsn, database):
    """Run the command on a database in which two people were shown two cases."""
    content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    del content["models"]["sums"]
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content | {"database": dsn}))
    monkeypatch.setenv("COLUMNS", "300")
    with database.transaction() as connection:
        access.note(connection, [FIRST, SECOND], "ada", through="page", shown=["input", "prediction"])
        access.note(connection, [SECOND], "bob\x1b[31m", through="list", shown=[])
    app = typer.Typer()
    app.command()(access_log)

    def run(*words):
        done = CliRunner().invoke(app, [*words, "--config", str(tmp_path / "demur.yaml")], catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    return run


def test_who_saw_what_stands_in_a_table(demur_access_log):
    told = demur_access_log()
    assert told.index("that it exists") < told.index("input, prediction")  # the latest first
    assert told.count(str(SECOND)) == 2
    assert told.count("ada") == 2
    assert "bob\\x1b[31m" in told
    assert "\x1b" not in told
    assert f"{datetime.now(UTC):%Y-%m-%d}" in told


def test_one_asks_for_a_case_a_person_or_a_time(demur_access_log):
    assert str(SECOND) not in demur_access_log("--case", str(FIRST))
    assert "ada" not in demur_access_log("--person", "bob\x1b[31m")
    assert demur_access_log("--limit", "1").count(str(SECOND)) == 1
    assert "ada" in demur_access_log("--since", "1h")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert demur_access_log("--since", tomorrow).strip() == "nobody was shown such a case"
    with pytest.raises(BadConfig, match="neither an age like"):
        demur_access_log("--since", "yesterday")


def test_as_json(demur_access_log, tmp_path):
    demur_access_log("--person", "ada", "--json", str(tmp_path / "seen.json"))
    told = json.loads((tmp_path / "seen.json").read_text())
    assert {one["case_id"] for one in told} == {str(FIRST), str(SECOND)}
    assert {one["person"] for one in told} == {"ada"}
    assert told[0]["shown"] == ["input", "prediction"]
    assert datetime.fromisoformat(told[0]["at"]).tzinfo is not None
