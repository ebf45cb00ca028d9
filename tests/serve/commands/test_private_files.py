"""What a command writes, other users of the machine cannot read."""

import os
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from tests.conftest import ROOT
from tests.serve.web.audit.traffic import write_traffic

pytestmark = pytest.mark.slow


def private(path):
    """Whether nobody but the owner can read a file or enter a folder."""
    return not stat.S_IMODE(path.stat().st_mode) & 0o077


@pytest.fixture
def project(database, digits, tmp_path):
    content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    content["models"]["digits"]["host"]["checkpoint"] = str(ROOT / "deploy/models/digits")
    content["models"]["digits"]["calibration"]["data"] = str(digits / "calibration.jsonl")
    del content["models"]["sums"]
    content["database"] = database.dsn
    content["artifacts"] = str(tmp_path / "artifacts")
    content["data"] = str(tmp_path / "data")
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))

    def demur(*words):
        before = os.umask(0o022)  # what most people have
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "demur", *words], cwd=tmp_path, capture_output=True, text=True, timeout=300
            )
        finally:
            os.umask(before)
        assert done.returncode == 0, done.stdout + done.stderr

    return tmp_path, demur


def test_artifacts_reports_exports_and_backups_are_private(project, database):
    folder, demur = project
    write_traffic(database, "digits", n=400, wrong=4, first=datetime.now(UTC) - timedelta(hours=5))
    demur("fit", "digits", "--promote")
    demur("backup", "backup")
    demur("export", "--model", "digits", "--to", "export", "--inputs")
    demur("audit", "--model", "digits", "--out", "report", "--json", "numbers.json", "--every-outcome-known")
    for name in ("artifacts", "backup", "export", "report"):
        made = folder / name
        assert private(made), name
        files = [path for path in made.rglob("*") if path.is_file()]
        assert files, name
        assert [str(path) for path in files if not private(path)] == []
    assert private(folder / "numbers.json")
