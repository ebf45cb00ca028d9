"""A model that raises, or never comes back, on labelled rows: a sentence that names the row, and no traceback."""

import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from demur.calibration_store.store import ArtifactStore
from demur.library.fit_report import sentences
from demur.serve.config.file import Config
from demur.serve.fitting import fit, rerun
from demur.serve.fitting.failing_rows import ModelFails, ModelHangs, run_each
from demur.serve.fitting.labelled_traffic import LabelledTraffic
from demur.traffic.dataset import LabelledFile
from demur.uncertainty.output import Output


class Fragile:
    """Knows texts like `0.8`, and what `raise`, `odd` and `wait` do to it."""

    waiting = threading.Event()

    def predict_proba(self, texts):
        if "raise" in texts:
            raise ValueError("no such word\nand more")
        if "wait" in texts:
            self.waiting.wait(60)
        return [[1 - float(text), float(text)] for text in texts] if "odd" not in texts else [[1.0] * 3]


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setattr(rerun, "check_model", lambda _: None)  # in a process of its own, which takes seconds
    section = {
        "task": {"kind": "binary", "labels": ["no", "yes"]},
        "host": {"kind": "python", "class": f"{Fragile.__module__}:Fragile", "timeout_seconds": 1.0},
        "scores": ["softmax_response"],
        "confidence": {"score": "softmax_response"},
        "policy": {"kind": "rejection_rate", "rate": 0.2},
    }
    return Config.model_validate({"artifacts": str(tmp_path / "artifacts"), "models": {"mine": section}})


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


GOOD = [f"{n / 101:.4f}" for n in range(1, 101)]
LABELS = [("no", "yes")[n % 100 > 35 + 30 * (n % 2)] for n in range(1, 101)]


def file_with(tmp_path, **changes):
    texts = [changes.get(f"row_{at}", text) for at, text in enumerate(GOOD, start=1)]
    rows = [json.dumps({"input": text, "label": label}) for text, label in zip(texts, LABELS, strict=True)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    return tmp_path / "rows.jsonl"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"row_3": "raise"}, "row 3: the model fails on it: ValueError: no such word"),
        ({"row_70": "raise"}, "row 70: the model fails on it: ValueError: no such word"),
        (
            {"row_70": "odd"},
            r"row 70: the model fails on it: predict_proba of .* gave \[1, 3\]; it should give \[1, 2\], .*",
        ),
        (
            {f"row_{n}": "raise" for n in range(1, 65)},
            "row 1: the model fails on it and on 63 more rows: ValueError: no such word",
        ),
    ],
)
def test_the_row_of_a_file_is_named(config, tmp_path, changes, why):
    with pytest.raises(ModelFails, match=rf"rows.jsonl, {why}$"):
        fit.fit_model(config, "mine", file_with(tmp_path, **changes), clock=clock, progress=lambda *_: None)


@pytest.mark.parametrize(("row", "rows", "seconds"), [("row_1", 1, "0.2"), ("row_2", 64, "1.28")])
def test_a_model_that_never_comes_back_ends_the_fit(config, tmp_path, monkeypatch, row, rows, seconds):
    monkeypatch.setattr(rerun, "FIRST_SECONDS", 0.2)
    host = config.models["mine"].host.model_copy(update={"timeout_seconds": 0.02})
    config = config.model_copy(update={"models": {"mine": config.models["mine"].model_copy(update={"host": host})}})
    with pytest.raises(ModelHangs, match=rf"no answer within {seconds} s about {rows} row"):
        fit.fit_model(config, "mine", file_with(tmp_path, **{row: "wait"}), clock=clock, progress=lambda *_: None)
    Fragile.waiting.set()
    Fragile.waiting = threading.Event()


def test_rows_of_the_log_on_which_it_fails_are_left_out(config, monkeypatch):
    inputs = ["raise" if at in (3, 70) else text for at, text in enumerate(GOOD)]
    traffic = LabelledTraffic(
        rows=LabelledFile(
            path=Path("traffic"), sha256="0" * 64, inputs=inputs, labels=LABELS, groups=[None] * 100, said=[None] * 100
        ),
        weights=None,
        facts={},
        remarks=[],
        among="whose outcome names labels of the model alone",
    )
    monkeypatch.setattr(fit, "read_labelled_traffic", lambda *_, **__: traffic)
    done = fit.fit_on_traffic(config, "mine", None, since=None, until=None, clock=clock, progress=lambda *_: None)
    assert "2 rows are left out: the model fails on them, so that the service holds them too." in done.remarks
    manifest = ArtifactStore(config.artifacts).load("mine", done.name).manifest
    assert manifest["data"]["n"] == 98
    (said,), (told,) = sentences(done.fit), manifest["promises"]
    assert "among inputs whose outcome names labels of the model alone" in said
    assert told["statement"] in said


def test_a_label_that_no_row_has_is_remarked(config, tmp_path):
    file = file_with(tmp_path)
    file.write_text(file.read_text().replace('"yes"', '"no"'))
    done = fit.fit_model(config, "mine", file, clock=clock, progress=lambda *_: None, anyway=True)
    assert any(remark.startswith("No row is labelled 'yes', so nothing is known") for remark in done.remarks)


def test_a_model_that_is_no_better_than_one_label_for_all_rows_is_remarked(config, tmp_path):
    """Its columns or labels may be in another order than in training."""
    file = file_with(tmp_path)
    done = fit.fit_model(config, "mine", file, clock=clock, progress=lambda *_: None)
    assert not any("in the order of training" in remark for remark in done.remarks)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    swapped = [row | {"label": {"yes": "no", "no": "yes"}[row["label"]]} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in swapped))
    done = fit.fit_model(config, "mine", file, clock=clock, progress=lambda *_: None, anyway=True)
    (remark,) = [one for one in done.remarks if "in the order of training" in one]
    assert remark.startswith("The model is right about ")


def test_a_replay_says_on_how_many_rows_it_fails(config, tmp_path):
    done = fit.fit_model(config, "mine", file_with(tmp_path), clock=clock, progress=lambda *_: None)
    again = rerun.Rerun(config, "mine", [done.name])
    with pytest.raises(
        ModelFails, match="mine fails on 2 of 3 rows that are run again: ValueError: no such word; mend"
    ):
        again.judge([again.read(text) for text in ("0.5", "raise", "raise")], [None] * 3)


def test_the_outputs_of_the_others_stay_in_their_places():
    def run(numbers):
        if not all(numbers):
            raise ArithmeticError("0 is none")
        return Output.from_probabilities(np.array([[1 - one, one] for one in numbers]), link="softmax")

    output, failing = run_each(run, [0.1, 0, 0.3, 0, 0.5])
    assert failing == {1: "ArithmeticError: 0 is none", 3: "ArithmeticError: 0 is none"}
    assert output.probabilities[[0, 2, 4], 1].tolist() == [0.1, 0.3, 0.5]
    assert len(output) == 5
