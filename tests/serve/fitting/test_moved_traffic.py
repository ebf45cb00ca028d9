"""`demur fit --for-traffic`: labelled rows of before, and inputs of now."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from demur.calibration_store.shortfall import PromiseOutOfReach
from demur.calibration_store.store import ArtifactStore
from demur.serve.cli import app
from demur.serve.commands.terminal import out
from demur.serve.config.file import BadConfig
from demur.serve.configuration import load_config
from demur.serve.contract.inputs import InputLimits
from demur.serve.contract.reading.given import GivenReader
from demur.serve.fitting.moved_traffic import NothingLogged, NotWeighable, check_weighable
from demur.traffic import log
from demur.traffic.dataset import NO_INPUT, GivenRow
from demur.uncertainty.checks import InvalidInput
from tests.conftest import entry
from tests.serve.hosting import RunningHost

LABELS = ["a", "b", "c"]
LIMITS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
RULE = {"kind": "selective_risk", "max_risk": 0.1, "method": "ltt_fixed_sequence", "bound": "betting", "limits": LIMITS}


def rows_of(n, seed, sharp, *, labelled):
    """What a calibrated model said of inputs that are the easier the sharper."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3)) * (rng.gamma(sharp, 1.0, n) + 0.3)[:, None]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p = (p / p.sum(axis=1, keepdims=True)).round(4)
    right = (p.cumsum(axis=1) > rng.random((n, 1)) * p.sum(axis=1, keepdims=True)).argmax(axis=1)
    for numbers, label in zip(p.tolist(), right.tolist(), strict=True):
        row = {"probabilities": dict(zip(LABELS, numbers, strict=True))}
        yield row | ({"label": LABELS[label]} if labelled else {})


def written(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture
def demur(tmp_path, monkeypatch):
    monkeypatch.setattr(out, "_width", 400)
    written(tmp_path / "old.jsonl", rows_of(2_500, 0, 4.0, labelled=True))
    written(tmp_path / "new.jsonl", rows_of(600, 1, 3.0, labelled=False))

    def run(*more, rule=RULE, database=None, **settings):
        model = {
            "task": {"kind": "multiclass", "labels": LABELS},
            "host": {"kind": "given", "gives": ["probabilities"]},
            "scores": ["softmax_response"],
            "confidence": {"score": "softmax_response", "calibrator": "isotonic"},
            "policy": rule,
            **settings,
        }
        config = {"artifacts": str(tmp_path / "artifacts"), "data": str(tmp_path / "data"), "models": {"v": model}}
        config |= {"database": database} if database else {}
        (tmp_path / "demur.yaml").write_text(yaml.safe_dump(config))
        words = ["fit", "v", "-c", str(tmp_path / "demur.yaml"), *map(str, more)]
        return CliRunner().invoke(app, words, catch_exceptions=True)

    return run


@pytest.mark.slow
def test_a_promise_for_other_inputs(demur, tmp_path):
    done = demur("--data", tmp_path / "old.jsonl", "--for-traffic", tmp_path / "new.jsonl")
    assert done.exit_code == 0, done.exception
    assert "as long as only the inputs have changed between the labelled rows and the traffic" in done.output
    assert "for 600 unlabelled rows of the new traffic" in done.output
    store = ArtifactStore(str(tmp_path / "artifacts"))
    (name,) = [word for word in done.output.split() if word.startswith("v-")][-1:]
    manifest = store.load("v", name).manifest
    facts = manifest["for_traffic"]
    assert facts["file"] == "new.jsonl"
    assert facts["n"] == 600
    assert 50 < facts["n_effective"] <= facts["n_certifying"]
    assert 0 < facts["coverage"] < 1
    assert facts["imbalance"] == ""
    assert "Weighted, they are like the new traffic" in done.output
    assert "only the inputs have changed" in manifest["promises"][0]["assumption"]
    plain = demur("--data", tmp_path / "old.jsonl")
    assert "only the inputs have changed" not in plain.output


@pytest.mark.slow
def test_sets_go_with_the_request(demur, tmp_path):
    """A host decides by the artifact alone."""
    more = {"prediction_set": {"kind": "split", "alpha": 0.05}}
    done = demur(
        "--data", tmp_path / "old.jsonl", "--for-traffic", tmp_path / "new.jsonl", rule={"kind": "conformal"}, **more
    )
    assert done.exit_code == 0, done.exception
    assert "Prediction sets are weighted for the new traffic too" in done.output
    assert "at most 5% of the sets lack the right label, on average, as long as only the inputs have" in done.output
    config = load_config(tmp_path / "demur.yaml")
    store = ArtifactStore(config.artifacts)
    (name,) = [word for word in done.output.split() if word.startswith("v-")][-1:]
    store.promote("v", name, by="tests", why="", clock=lambda: datetime(2026, 11, 26, tzinfo=UTC))
    model = config.models["v"]
    host, reader = (
        RunningHost("v", model, store),
        GivenReader(model.host, model.task, InputLimits(text_characters=100)),
    )
    outputs = [dict(zip(LABELS, p, strict=True)) for p in ([0.98, 0.01, 0.01], [0.4, 0.35, 0.25])]
    (share,) = host.decide([reader.read(GivenRow(input=None, output={"probabilities": one})) for one in outputs])
    assert share.decided.actions == ["answer", "abstain"]  # nothing is ruled out for the second


@pytest.mark.slow
def test_traffic_that_is_like_no_labelled_row_is_refused(demur, tmp_path):
    far = written(tmp_path / "far.jsonl", rows_of(600, 2, 0.01, labelled=True))
    done = demur("--data", tmp_path / "old.jsonl", "--for-traffic", far)
    assert isinstance(done.exception, PromiseOutOfReach)
    assert "label rows of the new traffic" in str(done.exception)
    mixed = [*rows_of(600, 3, 0.5, labelled=False), *rows_of(600, 4, 40.0, labelled=False)]
    done = demur("--data", tmp_path / "old.jsonl", "--for-traffic", written(tmp_path / "mixed.jsonl", mixed))
    assert isinstance(done.exception, PromiseOutOfReach)
    assert "the weighted rows are unlike the new traffic: the" in str(done.exception)
    few = written(tmp_path / "few.jsonl", rows_of(20, 2, 4.0, labelled=False))
    done = demur("--data", tmp_path / "old.jsonl", "--for-traffic", few)
    assert isinstance(done.exception, InvalidInput)
    assert "20 rows of the traffic have a usable confidence; weights take 100 at least" in str(done.exception)


@pytest.mark.parametrize(
    ("rule", "settings", "message"),
    [
        ({"kind": "selective_risk", "max_risk": 0.1}, {}, "bound: betting"),
        (
            {"kind": "threshold", "limit": 0.9},
            {"prediction_set": {"kind": "split", "alpha": 0.1, "delta": 0.1}},
            "v makes none",
        ),
        *(
            ({"kind": "threshold", "limit": 0.9}, {"prediction_set": {"kind": kind, "alpha": 0.1}}, "v makes none")
            for kind in ("adaptive", "regularised", "class_conditional", "group_conditional")
        ),
        (  # of the two promises one could be carried over
            {"kind": "selective_risk", "max_risk": 0.1, "method": "ltt"},
            {"prediction_set": {"kind": "split", "alpha": 0.1}},
            "v makes none",
        ),
        (
            RULE,
            {
                "prediction_set": {"kind": "split", "alpha": 0.1, "keep_predicted": False},
                "control": {"kind": "adaptive_sets", "alpha": 0.1},
                "spot_check": 0.1,
            },
            "control: adaptive_sets follows the traffic",
        ),
        (RULE, {"calibration": {"weigh_by": "embedding"}}, "gives no embedding"),
    ],
)
def test_a_rule_without_such_a_promise_is_refused(demur, tmp_path, rule, settings, message):
    more = ("--data", tmp_path / "old.jsonl", "--for-traffic", tmp_path / "new.jsonl")
    done = demur(*more, rule=rule, **settings)
    assert isinstance(done.exception, NotWeighable)
    assert message in str(done.exception)


@pytest.mark.slow
def test_the_traffic_of_the_log(demur, tmp_path, database, dsn):
    """Inputs of the log whose outputs came with them, whatever was decided; nothing of them is kept beside the log."""
    more = ("--data", tmp_path / "old.jsonl", "--for-traffic-since", "7d")
    empty = demur(*more, database=dsn)
    assert isinstance(empty.exception, NothingLogged)
    entries = [
        replace(
            entry(
                model="v",
                action=("answer", "review")[at % 2],
                created_at=datetime.now(UTC) - timedelta(hours=1, seconds=at),
                input=NO_INPUT,
            ),
            output={"probabilities": row["probabilities"]},
        )
        for at, row in enumerate(rows_of(600, 1, 3.0, labelled=False))
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
    done = demur(*more, database=dsn)
    assert done.exit_code == 0, done.exception
    assert "for 600 unlabelled rows of the new traffic" in done.output
    both = demur(*more, "--for-traffic", tmp_path / "new.jsonl")
    assert "for which traffic?" in str(both.exception)


def test_records_of_the_log_are_of_the_traffic_already(demur, tmp_path):
    done = demur("--since", "7d", "--for-traffic", tmp_path / "new.jsonl")
    assert isinstance(done.exception, BadConfig)


@pytest.mark.parametrize(
    "sets",
    [
        {"kind": "split", "alpha": 0.1, "delta": 0.1},
        {"kind": "adaptive", "alpha": 0.1},
        {"kind": "class_conditional", "alpha": 0.1},
    ],
)
def test_sets_without_weights_promise_something_of_traffic_like_the_labelled_rows(demur, tmp_path, sets):
    """Beside a rule whose promise is carried over: each says what it is about."""
    more = ("--data", tmp_path / "old.jsonl", "--for-traffic", tmp_path / "new.jsonl")
    done = demur(*more, prediction_set=sets)
    assert done.exit_code == 0, done.exception
    store = ArtifactStore(str(tmp_path / "artifacts"))
    rule, other = store.load("v", store.names("v")[0]).manifest["promises"]
    assert "only the inputs have changed" in rule["statement"]
    assert "calibration data" in other["assumption"]
    assert "only the inputs" not in other["statement"]
    assert "and what prediction sets promise, are of traffic like the labelled rows" in done.output


def test_models_that_are_asked_in_turn_are_refused(demur, tmp_path):
    demur("--since", "7d", "--for-traffic", tmp_path / "new.jsonl")  # which writes the configuration
    config = load_config(tmp_path / "demur.yaml")
    cascade = {"v": config.models["v"], "w": config.models["v"]}
    with pytest.raises(NotWeighable, match="weighs the rows of one model, and v has others to ask"):
        check_weighable("v", cascade)
