"""`demur failures`, on a real database."""

from datetime import UTC, datetime, timedelta

import pytest
import yaml
from typer.testing import CliRunner
from uuid_utils.compat import uuid7

from demur.serve.cli import app
from demur.serve.commands.terminal import out
from demur.serve.gateway import journal
from demur.traffic.record import FailedRequest
from tests.conftest import ROOT


@pytest.fixture
def demur(tmp_path, dsn, monkeypatch):
    content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    content["database"] = dsn
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(out, "_width", 300)

    def run(*words):
        done = CliRunner().invoke(app, ["failures", *words, "-c", str(tmp_path / "demur.yaml")], catch_exceptions=False)
        return done.output.strip()

    return run


def failed(minutes, **more):
    told = {
        "model": "talker",
        "group": None,
        "status": 503,
        "reason": f"http://127.0.0.1:9/v1 answered 429: {minutes} minutes",
        "retry_after": None,
        "passed_to": None,
        "request_id": None,
    }
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    return FailedRequest(id=uuid7(), created_at=at, **{**told, **more})


def test_failures_are_counted_by_what_became_of_them(demur, database):
    assert demur() == "no request failed because a model could not be asked"
    journal.note_failures(
        database,
        [
            failed(9),
            failed(5),
            failed(3, passed_to="spare"),
            failed(2, status=502, reason="refused the key\x1b[31m"),
            failed(1, model="other"),
        ],
    )
    lines = demur().splitlines()
    assert sum("talker" in line for line in lines) == 3
    [away] = [line for line in lines if "429: 5 minutes" in line]
    assert " 2 " in away
    assert "spare" in demur("--model", "talker")
    assert "other" not in demur("--model", "talker")
    assert "\\x1b[31m" in demur("--since", "1h")
    assert "429: 5 minutes" not in demur("--since", "4m")
