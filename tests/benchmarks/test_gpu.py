"""`python -m benchmarks.gpu` runs where there is no GPU, so that it runs where there is one."""

import json
import subprocess
import sys

import pytest
import torch

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu.plan import SHAPES, Results, plan_of
from tests.conftest import ROOT

PARTS = ("forward", "transfers", "scores", "sharing", "vllm")  # `serving` starts a service: tests/system


def run(*options):
    command = [sys.executable, "-m", "benchmarks.gpu", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)


@pytest.mark.slow
def test_a_small_run_on_a_cpu_writes_every_table(tmp_path):
    told, figures = tmp_path / "gpu.md", tmp_path / "gpu.json"
    ended = run(
        *("--device", "cpu", "--small", "--seconds", "0.01", "--parts", *PARTS, "--numbers", "float32"),
        *("--table", str(told), "--json", str(figures)),
    )
    assert ended.returncode == 0, ended.stderr
    assert told.read_text().strip() == ended.stdout.strip()
    assert "Small sizes: these figures only show that the command runs." in ended.stdout
    found = json.loads(figures.read_text())
    assert found["card"] == "no GPU"
    assert found["torch"] == torch.__version__
    tables = dict(zip(PARTS, found["tables"], strict=True))
    for name in PARTS[:-1]:
        assert tables[name]["rows"], name
        assert all(len(row) == len(tables[name]["columns"]) for row in tables[name]["rows"])
    assert {row[1] for row in tables["forward"]["rows"]} == {"float32"}
    rows = {row[0]: row for row in tables["scores"]["rows"]}
    assert max(rows[name][-1] for name in ("mahalanobis", "relative_mahalanobis", "deep_knn, 500 rows")) < 1e-9
    assert {row[0] for row in tables["sharing"]["rows"]} == {1, 2}
    assert tables["vllm"]["rows"] or "vllm is not installed" in tables["vllm"]["notes"][0]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_what_runs():
    ended = run()
    assert ended.returncode == 2
    assert "--device cpu --small" in ended.stderr


def test_a_part_that_fails_does_not_end_the_others(monkeypatch, capsys):
    def broken(plan, tick):
        tick()
        raise torch.OutOfMemoryError("20 GiB were asked for\nand more")

    def fine(plan, tick):
        return Results("fine", ("what", "ms"), words=1, rows=[["a", 1.5]])

    monkeypatch.setattr(gpu, "PARTS", {"forward": broken, "scores": fine})
    kept = []
    plan = plan_of("cpu", small=True, seconds=None)
    tables, failed = gpu.measured(plan, ["forward", "scores"], lambda tables: kept.append(len(tables)))
    assert kept == [0, 1]  # what there is after each part
    assert [table.title for table in tables] == ["fine"]
    assert failed == {"forward": "OutOfMemoryError: 20 GiB were asked for"}


def test_a_table_shows_three_digits_and_nothing_for_what_is_not_known():
    table = Results("T", ("way", "ms", "rows"), words=1, rows=[["a", 0.12345, 12345], ["b", 1234.5, None]], notes=["n"])
    assert table.markdown().split("\n") == [
        *("### T", "", "| way | ms | rows |", "| --- | ---: | ---: |"),
        *("| a | 0.123 | 12,345 |", "| b | 1,234 |  |", "", "n", ""),
    ]


def test_the_encoders_go_from_ten_to_four_hundred_million_parameters():
    plan = plan_of("cuda", small=False, seconds=None)
    for size, shape in zip(SHAPES, plan.shapes, strict=True):
        assert 12 * shape.layers * shape.dimensions**2 / 1e6 == pytest.approx(size, abs=3)
    assert all(shape.dimensions % shape.heads == 0 for shape in plan.shapes)
