"""Calibrators that look at more than a score, from a labelled file to the decision of a host."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.contract.inputs import InputLimits
from demur.serve.contract.reading.given import GivenReader
from demur.serve.fitting.fit import fit_model
from demur.traffic.dataset import GivenRow
from tests.serve.hosting import RunningHost

LABELS = ["billing", "outage", "other"]


def clock():
    return datetime(2026, 11, 25, tzinfo=UTC)


def rows_of(n, seed=0):
    """What a vendor's model said, which is wrong half of the time when it says `other`, whatever its probability."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(3, 0.5), size=n).round(4)
    said = p.argmax(axis=1)
    wrong = rng.random(n) < np.where(said == 2, 0.5, 0.03)
    right = np.where(wrong, (said + 1) % 3, said)
    for numbers, label in zip(p.tolist(), right.tolist(), strict=True):
        yield {"probabilities": dict(zip(LABELS, numbers, strict=True)), "label": LABELS[label]}


@pytest.mark.parametrize("calibrator", ["correctness", {"vector": {"penalty": 0.01}}, "dirichlet", "venn_abers"])
def test_from_a_file_to_a_decision(tmp_path, calibrator):
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows_of(900))))
    model = {
        "task": {"kind": "multiclass", "labels": LABELS},
        "host": {"kind": "given", "gives": ["probabilities"]},
        "scores": ["softmax_response"],
        "confidence": {"score": "softmax_response", "calibrator": calibrator},
        "policy": {"kind": "target_risk", "max_risk": 0.1},
    }
    config = Config.model_validate({"artifacts": str(tmp_path / "artifacts"), "models": {"vendor": model}})
    done = fit_model(config, "vendor", data, clock=clock, progress=lambda *_: None, anyway=True)
    store = ArtifactStore(config.artifacts)
    manifest = store.load("vendor", done.name).manifest
    store.promote("vendor", done.name, by="tests", why="", clock=clock)
    vendor = config.models["vendor"]
    host, reader = (
        RunningHost("vendor", vendor, store),
        GivenReader(vendor.host, vendor.task, InputLimits(text_characters=100)),
    )
    probabilities = ([0.9, 0.06, 0.04], [0.04, 0.06, 0.9])
    outputs = [{"probabilities": dict(zip(LABELS, p, strict=True))} for p in probabilities]
    (share,) = host.decide([reader.read(GivenRow(input=None, output=one)) for one in outputs])
    first, last = share.decided.confidence
    if calibrator == "correctness":
        assert any(remark.startswith("correctness: confidence goes by the whole") for remark in done.remarks)
        assert any(remark.startswith("correctness: confidence goes by the whole") for remark in manifest["remarks"])
        assert manifest["selector"]["calibrator"]["use"] == "model"
        assert first > 0.9
        assert last < 0.7
        assert share.decided.actions == ["answer", "review"]
    else:
        assert 0.5 < last <= first <= 1
