"""Two artifacts of a text model whose labels do not exclude each other, on a file and on records of a real database."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from demur.calibration_store.artifact import ArtifactRefused
from demur.policies.promise import LABELS_NOT_PREDICTED, ROWS_LABELS_MISSING
from demur.serve.commands.compare_tables import remarks, tables
from demur.serve.commands.replay_tables import left_out
from demur.serve.config.file import Config
from demur.serve.fitting.compare import NothingToCompare, compare_on_file, compare_on_traffic
from demur.serve.fitting.fit import fit_model
from demur.serve.fitting.flip import MOST_FLIPS
from demur.serve.fitting.replay import replay_traffic
from demur.serve.fitting.rerun import Rerun
from demur.traffic import log
from demur.traffic.table_file import BadDataFile
from tests.conftest import entry
from tests.serve.conftest import WORDS

LABELS = ["bad", "fair", "good"]

pytestmark = pytest.mark.slow  # fits two artifacts and runs a model over the log


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


def configured(checkpoint, folder, rate):
    model = {
        "task": {"kind": "multilabel", "labels": LABELS, "thresholds": "max_f1"},
        "host": {"kind": "classifier", "checkpoint": checkpoint},
        "scores": ["binary_entropy"],
        "confidence": {"score": "binary_entropy", "calibrator": "isotonic"},
        "policy": {"kind": "rejection_rate", "rate": rate},
    }
    return Config.model_validate({"artifacts": str(folder / "artifacts"), "models": {"words": model}})


def progress(done, total):
    assert 0 < done <= total


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return [
        {
            "input": " ".join(WORDS[i] for i in rng.integers(2, len(WORDS), size=4)),
            "label": [label for label in LABELS if rng.uniform() < 0.5],
        }
        for _ in range(150)
    ]


@pytest.fixture
def fitted(tiny_bert, tmp_path, rows):
    """The configuration, two artifacts that hold a tenth and a half, and a labelled file."""
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    names = []
    for rate in (0.1, 0.5):
        config = configured(tiny_bert, tmp_path, rate)
        names.append(fit_model(config, "words", path, clock=clock, progress=progress, anyway=True).name)
    return config, *names, path


def test_on_a_file(fitted):
    config, a, b, path = fitted
    found = compare_on_file(config, "words", a, b, path, progress=progress)
    lines = {line.name: line for line in found.numbers.differences}
    assert found.numbers.n == 150
    assert lines["coverage"].upper < 0
    assert len(found.flips) == min(MOST_FLIPS, found.numbers.flips.cells["answer_review"].n)
    assert {(flip.a, flip.b) for flip in found.flips} == {("answer", "review")}
    assert isinstance(found.flips[0].prediction, list)
    assert len(tables(found)) == 4  # with that of the most probable labels
    assert not any("Insufficient" in remark for remark in remarks(found))
    same = compare_on_file(config, "words", a, a, path, progress=progress)
    assert same.flips == []
    assert len(tables(same)) == 3


def test_on_the_log(fitted, rows, database, monkeypatch):
    config, a, b, path = fitted
    entries = [entry(model="words", input=row["input"], prediction=["bad"], action="review") for row in rows[:70]]
    with database.transaction() as connection:
        log.append(connection, entries)
        outcomes = [*(row["label"] for row in rows[:66]), ["ugly"], "bad"]
        for each, label in zip(entries, outcomes, strict=False):
            log.add_outcome(connection, each.record.id, label=label, source="test", author=None)
    span = {"since": None, "until": None, "progress": progress}
    found = compare_on_traffic(config, "words", a, b, database, **span)
    assert (found.numbers.n, found.forgotten, found.unusable) == (66, 0, 2)  # 66: those without any label are there
    assert [] in outcomes
    short = path.with_name("short.jsonl")
    short.write_text("\n".join(map(json.dumps, rows[:66])))
    assert found.numbers == compare_on_file(config, "words", a, b, short, progress=progress).numbers

    assert replay_traffic(config, "words", a, database, **span).promised == []
    promises = [
        {"share": share, "target": 0.1, "model": "words"} for share in (LABELS_NOT_PREDICTED, ROWS_LABELS_MISSING)
    ]
    monkeypatch.setattr(Rerun, "promises", promises)
    replayed = replay_traffic(config, "words", a, database, **span)
    labels, by_row = replayed.promised
    assert labels.n == sum(len(row["label"]) for row in rows[:66]) + 1  # and the one that is no list
    assert by_row.n == 67  # the one with a label that the task has not is left out
    assert 0 <= labels.value <= 1
    assert replayed.as_json()["promised"][0]["value"] == labels.value
    assert (replayed.numbers.n, replayed.numbers.n_labelled) == (70, 68)
    assert replayed.numbers.then.for_people == 70
    assert replayed.numbers.more_for_people == -replayed.numbers.held_to_answered < 0
    assert "68 of the 70 records have an outcome" in left_out(replayed)


def test_few_rows_are_said_to_be_few(fitted, rows, tmp_path):
    config, a, b, path = fitted
    path.write_text("\n".join(map(json.dumps, rows[:10])))
    found = compare_on_file(config, "words", a, b, path, progress=progress)
    assert any("Insufficient for a verdict on risk" in remark for remark in remarks(found))


def test_what_cannot_be_compared_is_refused(fitted, tiny_llama, database):
    config, a, b, path = fitted
    with pytest.raises(NothingToCompare, match="has an outcome"):
        compare_on_traffic(config, "words", a, b, database, since=None, until=None, progress=progress)
    other = configured(tiny_llama, path.parent, 0.1)
    with pytest.raises(ArtifactRefused, match="another checkpoint"):
        compare_on_file(other, "words", a, b, path, progress=progress)
    path.write_text('{"input": "the cat", "label": ["ugly"]}')
    with pytest.raises(BadDataFile, match="ugly"):
        compare_on_file(config, "words", a, b, path, progress=progress)
