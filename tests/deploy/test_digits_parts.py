"""The program that writes the quickstart's parts."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow


def test_it_writes_the_parts_that_tests_use_and_leaves_them_alone_the_second_time(digits, tmp_path):
    said = [
        subprocess.run(
            [sys.executable, ROOT / "deploy/models/digits/parts.py", tmp_path],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert said[0].startswith("wrote 897 train, 500 calibration, 400 test digits")
    assert said[1] == ""
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in digits.iterdir()
    }
