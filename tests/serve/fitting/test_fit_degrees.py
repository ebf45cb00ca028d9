"""A promise about what answers lack on average, from a labelled file to a decision."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from demur.calibration_store.shortfall import PromiseOutOfReach
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.fitting.fit import fit_model
from demur.serve.jobs.monitor_watch import promised_risk

LABELS = ["a", "b", "c", "d"]


def clock():
    return datetime(2026, 11, 25, tzinfo=UTC)


def rows_of(n, seed=0):
    """What was said of labels that hold with these probabilities."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.2, 0.2, (n, 4)).round(4)
    for numbers, holds in zip(p.tolist(), rng.random((n, 4)) < p, strict=True):
        held = [label for label, yes in zip(LABELS, holds, strict=True) if yes]
        yield {"probabilities": dict(zip(LABELS, numbers, strict=True)), "labels": held}


def config_of(tmp_path, max_risk, **more):
    model = {
        "task": {"kind": "multilabel", "labels": LABELS},
        "host": {"kind": "given", "gives": ["probabilities"]},
        "scores": ["binary_entropy"],
        "confidence": {"score": "binary_entropy", "calibrator": "isotonic"},
        "policy": {"kind": "selective_risk", "max_risk": max_risk, "delta": 0.1, **more},
    }
    return Config.model_validate({"artifacts": str(tmp_path / "artifacts"), "models": {"tags": model}})


@pytest.mark.slow
def test_from_a_file_to_a_promise_and_a_monitor(tmp_path):
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows_of(1_500))))
    config = config_of(tmp_path, 0.2, method="ltt_fixed_sequence", bound="betting", limits=[0.5, 0.6, 0.7, 0.8])
    done = fit_model(config, "tags", data, clock=clock, progress=lambda *_: None)
    manifest = ArtifactStore(config.artifacts).load("tags", done.name).manifest
    (promise,) = manifest["promises"]
    assert promise["statement"].startswith("at most 20% of an answer is wrong on average")
    assert promised_risk(manifest, "tags") == 0.2
    assert manifest["report"]["selective_risk"]["value"] < 0.25
    with pytest.raises(PromiseOutOfReach, match=r"rows for the rule .*|no limit"):
        fit_model(
            config_of(tmp_path, 0.005, method="ltt", bound="betting"),
            "tags",
            data,
            clock=clock,
            progress=lambda *_: None,
        )


def test_a_rule_that_counts_errors_says_what_takes_degrees(tmp_path):
    with pytest.raises(ValueError, match="`method: ltt` with `bound: betting`, which takes degrees"):
        config_of(tmp_path, 0.2)
