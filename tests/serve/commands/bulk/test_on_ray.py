"""`demur predict --ray`: workers of a real Ray ask a listening gateway about the rows of files."""

import json
import os
import subprocess
import sys

import pyarrow.dataset as dataset
import pytest

from tests.conftest import ROOT
from tests.serve.commands.bulk.conftest import count

pytestmark = pytest.mark.slow


def demur(folder, url, *words):
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "demur", "predict", *words, "--model", "digits", "--ray", "--url", url],
        cwd=folder, capture_output=True, text=True, timeout=300, env={**environment, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
def test_files_of_a_folder(url, gateway, database, tmp_path, some_digits):
    rows = [{"input": row["input"], "group": "g"} for row in some_digits]
    rows[7]["input"] = [[1.0]]
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:30]))
    (tmp_path / "rows/b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[30:]))
    command = ["rows", "--out", "out", "--batch-size", "4", "--concurrency", "2"]
    gateway.fails_after = 5
    status, said = demur(tmp_path, url, *command)
    assert status == 1
    assert "too much" in said
    assert "the same command goes on from there" in said
    assert "Traceback" not in said
    gateway.fails_after = None
    status, said = demur(tmp_path, url, *command)
    assert status == 1  # of the refused row
    assert "50 rows: " in said
    assert "row 8 of " in said
    assert "the shape is 1 x 1; this model takes 8 x 8" in said
    assert count(database) == 49  # none twice
    told = dataset.dataset(tmp_path / "out", format="parquet").to_table().to_pylist()
    assert sorted((os.path.basename(row["path"]), row["row"]) for row in told) == [
        *(("a.jsonl", n) for n in range(1, 31)),
        *(("b.jsonl", n) for n in range(1, 21)),
    ]
    assert sum(row["error"] is not None for row in told) == 1
    assert not (tmp_path / "out.unfinished").exists()
    status, said = demur(tmp_path, url, *command)
    assert "out is there already" in said


def test_what_is_wrong_is_said_in_a_sentence(url, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "x"}\n')
    for words, wanted in (
        (["none.csv", "--out", "out"], "none.csv: there is no such file, and no folder with files that end in"),
        (["rows.jsonl", "--out", "out", "--input-column", "input"], "there is no 'input'; there are: 'text'"),
    ):
        status, said = demur(tmp_path, url, *words)
        assert (status, wanted in said, "Traceback" in said) == (1, True, False), said
