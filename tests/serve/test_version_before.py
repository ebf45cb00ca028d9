"""What the version before wrote is read: its database, its artifact, and decisions as it made them.

`version_0_1_0/` is what `demur backup` of version 0.1.0 wrote: the quickstart's digits, fitted by it, and twelve
predictions.
"""

import json
import shutil
import sys
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
import yaml

from demur.calibration_store.store import ArtifactStore
from demur.serve.cli import main
from demur.serve.configuration import load_config
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.traffic import log
from tests.conftest import ROOT
from tests.serve.hosting import RunningHost

pytestmark = pytest.mark.slow

BEFORE = Path(__file__).parent / "version_0_1_0"
SAID = json.loads((BEFORE / "answers.json").read_text())


@pytest.fixture
def restored(tmp_path, monkeypatch):
    """A folder in which a configuration of this version finds what the version before had."""
    content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    del content["models"]["sums"]
    content["models"]["digits"]["host"]["checkpoint"] = str(ROOT / "deploy/models/digits")
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    shutil.copytree(BEFORE / "backup", tmp_path / "backup")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["demur", "restore", "backup"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None), end.value.code
    return load_config(tmp_path / "demur.yaml")


def test_records_and_cases_are_as_they_were_told(restored):
    with EmbeddedPostgres(restored.data) as server:
        database = open_database(server.dsn)
        with database.transaction() as connection:
            for said in (SAID["answered"], SAID["held"]):
                record = log.find_one(connection, UUID(said["id"]))
                for field in ("model", "prediction", "confidence", "scores", "reason", "artifact", "prediction_set"):
                    assert getattr(record, field) == said[field], field
                assert record.action == said["action"]
            held = connection.execute("select count(*) from review_items").fetchone()
        database.close()
    assert held == (4,)


def test_its_artifact_decides_as_it_decided(restored):
    host = RunningHost("digits", restored.models["digits"], ArtifactStore(restored.artifacts))
    assert host.trouble == ""
    assert host.artifact_name == SAID["answered"]["artifact"]
    (share,) = host.decide([np.asarray(SAID["input"], dtype=np.float32)[np.newaxis]])
    decided, said = share.decided, SAID["answered"]
    assert decided.actions == [said["action"]]
    assert decided.confidence[0] == pytest.approx(said["confidence"], abs=1e-6)
    assert {name: values[0] for name, values in decided.scores.items()} == pytest.approx(said["scores"], rel=1e-4)
    assert decided.reasons == [said["reason"]]
