"""A multilabel task under a label tree, from its file to what is decided, recorded, told and audited."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from transformers import BertConfig, BertForSequenceClassification

from demur.audit.ledger.from_database import read_ledger
from demur.audit.report.audit import AuditSettings, audit
from demur.calibration_store.store import ArtifactStore
from demur.policies.hierarchy import up_propagate_labels
from demur.serve.config.file import Config
from demur.serve.fitting.compare import compare_on_file
from demur.serve.fitting.fit import fit_model
from demur.serve.fitting.labelled_rows import truth_of
from demur.serve.web.native.app import gateway_app
from demur.serve.web.review.app import console_app
from demur.traffic.dataset import read_labelled_file
from demur.traffic.outcomes import LATEST
from tests.serve.conftest import WORDS, LocalHost, make_handler, save_tokenizer
from tests.serve.hosting import RunningHost

OUTPUTS = ["A0101", "A0102", "B01", "A01", "B0203"]
LABELS = (*OUTPUTS, "A", "B", "B02")  # behind the outputs, what else lies above them
PARENTS = {"A0101": ["A01"], "A0102": ["A01"], "A01": ["A"], "B01": ["B"], "B0203": ["B02", "A"], "B02": ["B"]}
MAX_F1 = {"thresholds": "max_f1"}
BY_NAME = {"thresholds": {"fixed": {"limit": 0.4, "labels": {"B0203": 0.1, "A01": 0.9}}}}
CRC = {"thresholds": {"risk_control": {"alpha": 0.3}}}


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("codes")
    torch.manual_seed(0)
    BertForSequenceClassification(
        BertConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=32,
            num_labels=len(OUTPUTS),
            problem_type="multi_label_classification",
            initializer_range=0.5,  # of many minds about different texts
        )
    ).save_pretrained(folder)
    save_tokenizer(folder)
    return str(folder)


def config_for(checkpoint, tmp_path, **task):
    model = {
        "task": {"kind": "multilabel", "labels": OUTPUTS, "tree": PARENTS, **task},
        "host": {"kind": "classifier", "checkpoint": checkpoint, "mc_passes": 3, "device": "cpu"},
        "scores": ["binary_entropy"],
        "confidence": {"score": "binary_entropy"},
        "policy": {"kind": "threshold", "limit": 1.0},
    }
    review = {"undo_seconds": 0}
    return Config.model_validate(
        {"artifacts": str(tmp_path / "artifacts"), "models": {"codes": model}, "review": review}
    )


def texts(path, n=160):
    """Told are the lowest codes alone, as people who code do it."""
    rows = [
        {
            "input": f"{WORDS[2 + i % 9]} {WORDS[3 + i % 7]} {WORDS[4 + i % 5]}",
            "label": [one for j, one in enumerate(("A0101", "A0102", "B01", "B0203")) if (i // 3 >> j) % 2],
        }
        for i in range(n)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def fitted(config, data):
    done = fit_model(config, "codes", data, clock=clock, progress=lambda *_: None, anyway=True)
    store = ArtifactStore(config.artifacts)
    store.promote("codes", done.name, by="tests", why="", clock=clock)
    return done, store


def is_closed(labels):
    return sorted(labels) == up_propagate_labels(labels, PARENTS)


@pytest.mark.parametrize("thresholds", [{}, MAX_F1, CRC, BY_NAME])
def test_everything_that_is_decided_recorded_told_and_audited_is_closed(thresholds, checkpoint, tmp_path, database):
    config = config_for(checkpoint, tmp_path, **thresholds)
    model, data = config.models["codes"], texts(tmp_path / "rows.jsonl")
    assert model.task.labels == LABELS
    _, store = fitted(config, data)
    counts = store.in_force("codes").manifest["data"]["label_counts"]
    assert tuple(counts) == LABELS
    assert counts["A"] >= counts["A01"] >= counts["A0101"] > 0
    assert counts["B02"] == counts["B0203"]

    handler = make_handler(config, {"codes": LocalHost(RunningHost("codes", model, store))}, database)
    told = []
    with TestClient(gateway_app(handler, max_body_bytes=1 << 20)) as http:
        for i in range(40):
            text = f"{WORDS[2 + i % 10]} {WORDS[2 + i % 7]} {WORDS[2 + i % 3]}"
            answer = http.post("/v1/predict", json={"model": "codes", "input": text}).json()
            told.append(answer)
            assert is_closed(answer["prediction"])
            assert answer["prediction_set"] == answer["prediction"]
            outcome = http.post(f"/v1/predictions/{answer['id']}/outcome", json={"label": ["B0203"]}).json()
            assert outcome["label"] == ["B0203", "A", "B", "B02"]
        assert len({tuple(answer["prediction"]) for answer in told}) > 1
        again = http.post(f"/v1/predictions/{told[0]['id']}/outcome", json={"label": ["B02", "A01"]}).json()
        assert again["label"] == ["A01", "A", "B", "B02"]

    with database.transaction() as connection:
        probabilities = connection.execute("select top_labels, top_probabilities from records").fetchall()
    for labels, p in probabilities:
        known = dict(zip(labels, p, strict=True))
        links = [(child, parent) for child in labels for parent in PARENTS.get(child, ()) if parent in known]
        assert all(known[parent] >= known[child] for child, parent in links)
    ledger = read_ledger(database, "codes", precedence=LATEST, since=None, until=None, as_of=datetime.now(UTC))
    assert 0 < ledger.quality.mean() < 1
    assert {"risk", "macro_f1", "ece_at_1"} <= {
        one["name"] for one in audit(ledger, AuditSettings()).document["estimates"]
    }


def test_what_a_reviewer_ticks_brings_what_lies_above(checkpoint, tmp_path, database):
    config = config_for(checkpoint, tmp_path)
    _, store = fitted(config, texts(tmp_path / "rows.jsonl"))
    handler = make_handler(config, {"codes": LocalHost(RunningHost("codes", config.models["codes"], store))}, database)
    pages = TestClient(console_app(config, database), cookies={"demur-reviewer": "ada"})
    with TestClient(gateway_app(handler, max_body_bytes=1 << 20)) as http:
        asked = http.post("/v1/predict", json={"model": "codes", "input": "the cat sat"}).json()
        case = pages.post("/next").text
        assert case.count('name="label"') == len(LABELS)
        assert "Those above a ticked one are added." in case
        form = {"token": 1, "label": ["A0102"]}
        assert pages.post(f"/cases/{asked['id']}/answer", data=form, follow_redirects=False).status_code == 303
        view = http.get(f"/v1/predictions/{asked['id']}").json()
    assert view["outcome"]["label"] == ["A0102", "A01", "A"]


@pytest.mark.slow
def test_an_artifact_of_another_tree_or_of_none_is_refused(checkpoint, tmp_path):
    data = texts(tmp_path / "rows.jsonl")
    flat = {"labels": OUTPUTS, "tree": None}
    full = {"tree": {**PARENTS, "B01": ["B", "A"]}}
    outputs_alone = {"tree": {"A0101": ["A01"]}}
    for task, other in (({}, full), (flat, outputs_alone), (outputs_alone, flat)):
        config = config_for(checkpoint, tmp_path, **task)
        done, store = fitted(config, data)
        host = RunningHost("codes", config_for(checkpoint, tmp_path, **other).models["codes"], store)
        assert host.artifact_name is None
        assert "fitted for another label tree; fit a new one" in host.trouble
        assert RunningHost("codes", config.models["codes"], store).artifact_name == done.name


@pytest.mark.slow
def test_truths_are_closed_for_whoever_reads_a_file(checkpoint, tmp_path):
    config = config_for(checkpoint, tmp_path)
    data = texts(tmp_path / "rows.jsonl")
    truth = truth_of(read_labelled_file(data), config.models["codes"].task)
    tree = config.models["codes"].task.tree
    np.testing.assert_array_equal(tree.closed(truth), truth)
    one, _ = fitted(config, data)
    two, _ = fitted(config_for(checkpoint, tmp_path, **MAX_F1), data)
    compared = compare_on_file(config, "codes", one.name, two.name, data, progress=lambda *_: None)
    assert compared.numbers.n == len(truth)
