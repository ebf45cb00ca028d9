"""demur beside bare in `python -m benchmarks.gpu`: two hosts on one device, here the CPU."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]  # minutes; the other parts are in tests/benchmarks/test_gpu.py


def test_demur_and_bare_are_asked_in_turns():
    command = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--small", "--parts", "serving"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert ended.returncode == 0, ended.stderr
    rows = [line for line in ended.stdout.splitlines() if line.startswith("| of embeddings |")]
    assert [line.split(" | ")[3] for line in rows] == ["bare", "demur"] * 2
