"""An audit by several workers of a real Ray: every number that adds up is that of one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks.audit_size import made, write_export
from tests.audit.report.test_in_parts import apart
from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def audited(folder: Path, *words: str) -> dict:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "demur", "audit", "--parquet", "export", "--json", "-", *words],
        cwd=folder, capture_output=True, text=True, timeout=300, env={**environment, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_it_says_what_one_process_says(tmp_path: Path) -> None:
    content = yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())
    models = {"bench": content["models"]["digits"]}
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump({**content, "models": models}))
    write_export(str(tmp_path / "export"), made(6_000))
    alone, on_ray = audited(tmp_path), audited(tmp_path, "--ray")
    assert on_ray.pop("command") == f"{alone.pop('command')} --ray"
    assert on_ray["records"]["n"] == 6_000
    assert all(on_ray["method"]["ranked_exactly"].values())
    assert apart(on_ray, alone) == []
