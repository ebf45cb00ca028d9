"""Every score, calibrator and rule by its name in the configuration, for every kind of task, up to a served answer."""

import json
from collections import Counter
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from starlette.testclient import TestClient
from transformers import BertConfig, BertForSequenceClassification

from demur.audit.held_out import calibration_report, held_out_report
from demur.audit.ledger.from_database import read_ledger
from demur.audit.report.audit import AuditSettings, FittedLabels, audit
from demur.calibration_store.artifact import ModelIdentity, pack, unpack
from demur.calibration_store.fitting import fit_selectors
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.complaint import complaint
from demur.serve.config.file import Config
from demur.serve.fitting.fit import fit_model
from demur.serve.web.native.app import gateway_app
from demur.serve.web.review.app import console_app
from demur.traffic.outcomes import LATEST
from demur.uncertainty.calibrators import CALIBRATORS, FOR_SHARES
from demur.uncertainty.label_calibrators import LABEL_CALIBRATORS
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import ONLY_FOR, REPLY_SCORES, SCORES
from tests.conftest import digit_rows
from tests.serve.conftest import WORDS, LocalHost, make_handler, save_tokenizer
from tests.serve.hosting import RunningHost

pytestmark = pytest.mark.slow  # each fits and serves a model

SETTINGS = {
    "mahalanobis": {"shrinkage": 0.1},
    "relative_mahalanobis": {"shrinkage": 0.1},
    "isolation_forest": {"trees": 10},
    "logistic": {"of": ["softmax_response", "mahalanobis"]},
}
RULES = {
    "threshold": {"limit": 0.5},
    "target_risk": {"max_risk": 0.2},
    "rejection_rate": {"rate": 0.1},
    "selective_risk": {"max_risk": 0.4, "delta": 0.2},
    "cost": {"reject_cost": 0.3},
    "all_of": {
        "gates": [
            {"in_distribution": {"score": "mahalanobis", "quantile": 0.95}},
            {"parsable": {"otherwise": "abstain"}},
        ],
        "rule": {"kind": "selective_risk", "max_risk": 0.4, "delta": 0.2},
    },
}
"""Settings of the policies that every kind of task can have."""

RULES_FOR_CLASSES = [
    {"kind": "conformal", "answer_up_to": 1},
    {"kind": "threshold", "score": "mahalanobis", "limit": 20},
    {"kind": "all_of", "gates": ["set_size"], "rule": {"kind": "target_risk", "max_risk": 0.2}},
]
RULES_FOR_LABELS = [
    {"kind": "risk_control", "alpha": 0.2, "spare": 1},
    {"kind": "threshold", "limit": 0.5, "labels": {"cat": 0.9}},
]


def rules_for(kind):
    """Policies that a task of this kind can have."""
    rules = [{"kind": name, **settings} for name, settings in RULES.items()]
    if kind == "multilabel":
        return rules + RULES_FOR_LABELS
    costs = {label: {other: float(label != other) for other in KINDS[kind]} for label in KINDS[kind]}
    return [*rules, *RULES_FOR_CLASSES, {"kind": "cost", "matrix": costs, "reject_cost": 0.2}]


OF_CLASSIFIERS = [name for name in SCORES if name not in REPLY_SCORES]
FOR_CLASSES = [name for name in OF_CLASSIFIERS if ONLY_FOR.get(name, "softmax") == "softmax"]
FOR_LABELS = [name for name in OF_CLASSIFIERS if ONLY_FOR.get(name, "sigmoid") == "sigmoid"]
MIXES = ["hybrid", "logistic", "venn_abers_width"]
KINDS = {"binary": ["no", "yes"], "multiclass": ["bad", "fair", "good"], "multilabel": ["cat", "dog", "red", "fast"]}


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


def listed(*names):
    return [{name: SETTINGS[name]} if name in SETTINGS else name for name in names]


def everything(kind):
    if kind == "multilabel":
        return [*listed(*FOR_LABELS), {"binary_entropy": {"reduce": "max", "as": "largest_entropy"}}]
    return [*listed(*FOR_CLASSES, *MIXES), {"hybrid": {"variant": "step", "as": "hybrid_step"}}]


def model_config(kind, checkpoint="unused", **changes):
    score = "binary_entropy" if kind == "multilabel" else "softmax_response"
    model = {
        "task": {"kind": kind, "labels": KINDS[kind]},
        "host": {"kind": "classifier", "checkpoint": checkpoint, "mc_passes": 3},
        "scores": everything(kind),
        "confidence": {"score": score, "calibrator": "isotonic"},
        "policy": {"kind": "rejection_rate", "rate": 0.2},
        **changes,
    }
    return Config.model_validate({"models": {"words": model}}).models["words"]


def outputs(kind, n=240, seed=0):
    """Labelled output of a made-up model that is right more often than not."""
    rng = np.random.default_rng(seed)
    wide = len(KINDS[kind])
    if kind == "multilabel":
        truth = rng.random((n, wide)) < 0.4
        logits, link = 2.5 * (truth - 0.5) + rng.normal(size=(n, wide)), "sigmoid"
    else:
        truth = rng.integers(wide, size=n)[:, None] == np.arange(wide)
        logits, link = 1.5 * truth + rng.normal(size=(n, wide)), "softmax"
    embedding = logits @ rng.normal(size=(wide, 5)) + rng.normal(size=(n, 5))
    mc_logits = logits[:, None] + rng.normal(size=(n, 4, wide)) / 2
    output = Output.from_logits(logits, link=link, embedding=embedding, mc_logits=mc_logits)
    return LabelledOutput(output=output, truth=truth, exclusive=kind != "multilabel")


def fitted_and_stored(recipe, rows, report=held_out_report):
    """Fit, write as an artifact, read it again: what a host decides by."""
    fit = fit_selectors(
        {"toy": recipe},
        {"toy": rows},
        report=report,
        cross_report=calibration_report,
        report_share=0.4,
        rng=np.random.default_rng(0),
    )
    identity = ModelIdentity(checkpoint="a", fingerprint="f" * 64, labels=("a",))
    return fit, unpack(pack(fit.selector, model="toy", identity=identity, facts={"report": fit.report})).selector


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["score", "calibrator", "policy"])
def test_everything_can_be_named_fitted_stored_and_decides(kind, place):
    rows, fresh = outputs(kind), outputs(kind, n=50, seed=1)
    right = {} if kind != "multilabel" else {"right": "exact"}
    base = {"score": "binary_entropy" if kind == "multilabel" else "softmax_response", "calibrator": "isotonic"}
    if place == "score":
        names = [*FOR_LABELS, "largest_entropy"] if kind == "multilabel" else [*FOR_CLASSES, *MIXES]
        configured = [model_config(kind, confidence={**base, "score": name, **right}) for name in names]
    elif place == "calibrator":
        names = [name for name in CALIBRATORS if kind != "multilabel" or name in FOR_SHARES | {"platt"}]
        configured = [model_config(kind, confidence={**base, "calibrator": name, **right}) for name in names]
    else:
        names = rules_for(kind)
        configured = [model_config(kind, confidence={**base, **right}, policy=rule) for rule in names]
    for name, config in zip(names, configured, strict=True):
        fit, selector = fitted_and_stored(config.recipe, rows, report=lambda *_: {})  # its intervals take their time
        judged = selector.decide(fresh.output)
        assert set(judged.scores) == {*config.recipe.scores, *config.recipe.combinations}, name
        assert np.isfinite(judged.confidence).all(), name
        assert judged.confidence.min() >= 0, name
        assert judged.confidence.max() <= 1, name
        again = fit.selector.decide(fresh.output)
        np.testing.assert_array_equal(again.confidence, judged.confidence, err_msg=name)
        assert again.decisions == judged.decisions, name
        assert fit.crossfit["ece"]["n"] <= fit.n_fitted


WAYS_FOR_LABELS = [
    *({"isotonic": {"mode": mode, "k": 3, "least": 20}} for mode in ("joint", "separate", "per_label")),
    *({name: {"k": 3}} for name in LABEL_CALIBRATORS if name != "isotonic"),
]


@pytest.mark.parametrize("way", WAYS_FOR_LABELS, ids=str)
def test_label_confidences_are_calibrated_and_keep_the_order_of_precision(way):
    config = model_config("multilabel", label_confidence=way, confidence=JACCARD)
    fit, selector = fitted_and_stored(config.recipe, outputs("multilabel", n=1500))
    judged = selector.decide(outputs("multilabel", n=40, seed=2).output)
    assert judged.label_confidence.shape == (40, 3)
    assert {"ece_at_1", "ece_at_3_before", "precision_at_3", "jaccard"} <= set(fit.report)
    assert fit.report["ece_at_3"]["value"] < 0.08


def test_label_limits_can_promise_that_few_labels_are_missed():
    task = {"kind": "multilabel", "labels": KINDS["multilabel"], "thresholds": {"risk_control": {"alpha": 0.05}}}
    _, selector = fitted_and_stored(model_config("multilabel", task=task).recipe, outputs("multilabel", n=1500))
    fresh = outputs("multilabel", n=3000, seed=5)
    missed = fresh.truth & ~selector.decide(fresh.output).predicted
    assert 0.02 < missed.sum() / fresh.truth.sum() < 0.07


JACCARD = {"score": "binary_entropy", "calibrator": "isotonic"}


@pytest.mark.parametrize(
    ("kind", "changes", "why"),
    [
        ("multilabel", {"scores": ["entropy"]}, "entropy is not defined for a multilabel task"),
        ("multiclass", {"scores": ["binary_entropy"]}, "binary_entropy is not defined for a multiclass task"),
        ("multiclass", {"scores": ["hybrid"]}, "list mahalanobis, softmax_response as well"),
        ("multiclass", {"scores": ["entropy", {"entropy": {"as": "entropy"}}]}, "listed twice; give one of them"),
        ("multiclass", {"label_confidence": "isotonic"}, "label_confidence: this is for multilabel tasks"),
        ("multiclass", {"task": {"kind": "binary", "labels": ["a", "b", "c"]}}, "a binary task has 2 labels"),
        ("multiclass", {"confidence": {"score": "entropy", "right": "jaccard"}}, "jaccard is for multilabel tasks"),
        (
            "multilabel",
            {"confidence": {**JACCARD, "calibrator": "platt"}},
            "use isotonic or min_max, or `right: exact`",
        ),
        ("multilabel", {"confidence": {**JACCARD, "calibrator": "temperature", "right": "exact"}}, "reads the logits"),
        (
            "multilabel",
            {"policy": {"kind": "selective_risk", "max_risk": 0.1}},
            "it needs `confidence: {right: exact}`",
        ),
        ("multilabel", {"policy": {"kind": "conformal"}}, "without which a multilabel task has none"),
        ("multilabel", {"prediction_set": {"kind": "split"}}, "'split' is not one of: risk_control"),
        ("multilabel", {"prediction_set": {"alpha": 0.1}}, "`kind: risk_control` comes with these settings"),
        ("multiclass", {"policy": {"kind": "risk_control"}}, "risk_control is for multilabel tasks"),
        (
            "multiclass",
            {"policy": {"kind": "threshold", "score": "lof", "limit": 1}},
            "policy: 'lof' is not among the scores: ",
        ),
        (
            "multiclass",
            {"policy": {"kind": "threshold", "labels": {"bad": 0.5}}},
            "limits for labels are for multilabel",
        ),
        (
            "multilabel",
            {"policy": {"kind": "threshold", "labels": {"eel": 0.5}}},
            "policy.labels.eel: 'eel' is not one of: cat",
        ),
        ("multilabel", {"policy": {"kind": "threshold", "labels": {"cat": "0.5"}}}, "'0.5' is not a number"),
        (
            "multilabel",
            {"policy": {"kind": "threshold", "limit": [1], "labels": {"cat": 0.5}}},
            "policy.limit: [1] is not a number",
        ),
        ("multilabel", {"policy": {"kind": "cost", "matrix": {}}}, "for tasks with one right label"),
        ("multiclass", {"policy": {"kind": "cost", "matrix": {"bad": {}}}}, "a row of costs for each label"),
        ("multiclass", {"policy": {"kind": "all_of", "rule": {"kind": "cost"}}}, "all_of takes `gates` and `rule`"),
        ("multiclass", {"policy": {"kind": "all_of", "gates": [], "rule": {"kind": "cost"}}}, "write a list of gates"),
        (
            "multiclass",
            {"policy": {"kind": "all_of", "gates": ["singleton"], "rule": {"kind": "cost"}}},
            "'singleton' is not one of: in_distribution, set_size, parsable",
        ),
        (
            "multiclass",
            {"policy": {"kind": "all_of", "gates": ["parsable"], "rule": {"kind": "all_of"}}},
            "write a policy with its `kind`, other than all_of",
        ),
        (
            "multiclass",
            {"policy": {"kind": "all_of", "gates": [{"in_distribution": {"score": "x"}}], "rule": {"kind": "cost"}}},
            "either a `quantile` of the calibration data or a `max`",
        ),
        ("multiclass", {"task": {"kind": "multiclass", "labels": ["a", "b"], "thresholds": "max_f1"}}, "multilabel"),
    ],
)
def test_what_does_not_go_together_is_said_at_the_start(kind, changes, why):
    with pytest.raises(ValidationError) as refused:
        model_config(kind, **changes)
    assert why in complaint(refused.value)


def saved_bert(folder, outputs_, **config):
    torch.manual_seed(0)
    BertForSequenceClassification(
        BertConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=32,
            num_labels=outputs_,
            **config,
        )
    ).save_pretrained(folder)
    save_tokenizer(folder)
    return str(folder)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory, tiny_bert):
    folder = tmp_path_factory.mktemp("tasks")
    return {
        "binary": saved_bert(folder / "one", 1),  # a single output, as binary classifiers often have
        "multiclass": tiny_bert,
        "multilabel": saved_bert(folder / "many", 4, problem_type="multi_label_classification"),
    }


def texts(path, kind, n=120):
    def label(i):
        if kind == "multilabel":
            return [one for j, one in enumerate(KINDS[kind]) if (i >> j) % 2]
        return KINDS[kind][i % len(KINDS[kind])]

    rows = [{"input": f"{WORDS[2 + i % 9]} {WORDS[3 + i % 7]} {WORDS[4 + i % 5]}", "label": label(i)} for i in range(n)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize(
    ("prediction_set", "promise"),
    [
        ({"alpha": 0.05}, "at 5% error"),
        ({"kind": "adaptive", "alpha": 0.05}, "at 5% error"),
        ({"kind": "regularised", "alpha": 0.05, "penalty": 0.1, "k_reg": 1}, "at 5% error"),
        ({"kind": "class_conditional", "alpha": 0.1}, "at 10% error for each label"),
    ],
)
def test_a_served_answer_goes_by_the_size_of_its_set(prediction_set, promise, quickstart, digits, tmp_path, database):
    content = quickstart.model_dump()
    content["artifacts"] = str(tmp_path / "artifacts")
    content["models"]["digits"].update(
        policy={"kind": "conformal", "when_full": "review"}, prediction_set=prediction_set
    )
    config = Config.model_validate(content)
    model, store = config.models["digits"], ArtifactStore(config.artifacts)
    done = fit_model(config, "digits", digits / "calibration.jsonl", clock=clock, progress=lambda *_: None)
    store.promote("digits", done.name, by="tests", why="", clock=clock)
    manifest = store.in_force("digits").manifest
    assert manifest["configured"]["prediction_set"] == prediction_set
    handler = make_handler(config, {"digits": LocalHost(RunningHost("digits", model, store))}, database)
    sizes, actions = Counter(), Counter()
    with TestClient(gateway_app(handler, max_body_bytes=1 << 20)) as http:
        for row in digit_rows(digits)[:40]:
            told = http.post("/v1/predict", json={"model": "digits", "input": row["input"]}).json()
            size = len(told["prediction_set"])
            sizes[size] += 1
            caveat = "a promise about all sets and not about the answers"
            expected = (
                {
                    "answer": f"1 label cannot be ruled out {promise}, {caveat}",
                    "abstain": f"all 10 labels are ruled out {promise}",  # the predicted one is shown all the same
                }
                if size == 1
                else {"review": f"{size} labels cannot be ruled out {promise}, and one is answered"}
            )
            assert told["reason"] == expected[told["action"]]
            actions[told["action"]] += 1
            assert told["prediction"] == told["prediction_set"][0]
    assert sizes[1] == 40
    assert actions["answer"] >= 5


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_of_every_kind_is_answered_with_all_scores_reviewed_and_audited(
    kind, checkpoints, tmp_path, database
):
    model = model_config(kind, checkpoints[kind], policy={"kind": "threshold", "limit": 1.0})
    config = Config.model_validate(
        {
            "artifacts": str(tmp_path / "artifacts"),
            "models": {"words": model.model_dump()},
            "review": {"undo_seconds": 0},
        }
    )
    rows = texts(tmp_path / "rows.jsonl", kind)
    done = fit_model(config, "words", rows, clock=clock, progress=lambda *_: None, anyway=True)
    store = ArtifactStore(config.artifacts)
    store.promote("words", done.name, by="tests", why="", clock=clock)
    handler = make_handler(config, {"words": LocalHost(RunningHost("words", model, store))}, database)
    with TestClient(gateway_app(handler, max_body_bytes=1 << 20)) as http:
        told = http.post("/v1/predict", json={"model": "words", "input": "the cat sat"}).json()
        assert set(told["scores"]) == {*model.recipe.scores, *model.recipe.combinations}
        assert None not in told["scores"].values()
        address = f"/v1/predictions/{told['id']}/outcome"
        if kind == "multilabel":
            assert isinstance(told["prediction"], list)
            assert set(told["label_confidence"]) == set(KINDS[kind])
            assert list(told["label_confidence"].values()) == sorted(told["label_confidence"].values(), reverse=True)
            assert "takes a list of labels" in http.post(address, json={"label": "cat"}).text
            assert http.post(address, json={"label": ["red", "cat"]}).json()["label"] == ["cat", "red"]  # in task order
            assert "'eel' is not a label" in http.post(address, json={"label": ["eel"]}).text
        else:
            assert told["prediction"] in KINDS[kind]
            assert told["label_confidence"] is None
            assert "takes one label" in http.post(address, json={"label": ["yes"]}).text
            assert http.post(address, json={"label": KINDS[kind][0]}).status_code == 201
        for i in range(30):  # traffic to audit
            answer = http.post("/v1/predict", json={"model": "words", "input": f"{WORDS[2 + i % 10]} ran"}).json()
            label = KINDS[kind][: i % 3] if kind == "multilabel" else KINDS[kind][i % 2]
            http.post(f"/v1/predictions/{answer['id']}/outcome", json={"label": label})

    pages = TestClient(console_app(config, database), cookies={"demur-reviewer": "ada"})
    case = pages.post("/next").text
    accepts = case.count('class="accept" value=')  # says what the model said
    assert case.count('name="label"') == len(KINDS[kind]) + accepts
    ticked = KINDS[kind][:2] if kind == "multilabel" else KINDS[kind][0]
    form = {"token": 1, "label": ticked}
    assert pages.post(f"/cases/{told['id']}/answer", data=form, follow_redirects=False).status_code == 303
    with TestClient(gateway_app(handler, max_body_bytes=1 << 20)) as http:
        view = http.get(f"/v1/predictions/{UUID(told['id'])}").json()
    assert view["outcome"]["label"] == ticked
    assert view["outcome"]["author"] == "ada"

    ledger = read_ledger(database, "words", precedence=LATEST, since=None, until=None, as_of=datetime.now(UTC))
    data = store.in_force("words").manifest["data"]
    report = audit(ledger, AuditSettings(fitted=FittedLabels(counts=data["label_counts"], n=data["n"])))
    names = {(one["name"], one["of"]) for one in report.document["estimates"]}
    assert {("ece", ""), ("macro_f1", "head"), ("prr", "local_outlier_factor"), ("auroc", "confidence")} <= names
    assert (("precision_at_3", "") in names) == (kind == "multilabel")
    assert "isolation_forest" in report.as_html()


def test_the_labels_that_cannot_be_ruled_out_are_shown_beside_those_that_are_predicted(checkpoints, tmp_path, database):
    model = model_config("multilabel", checkpoints["multilabel"], policy={"kind": "risk_control", "alpha": 0.2})
    config = Config.model_validate(
        {"artifacts": str(tmp_path / "artifacts"), "models": {"words": model.model_dump(by_alias=True)}}
    )
    rows = texts(tmp_path / "rows.jsonl", "multilabel")
    done = fit_model(config, "words", rows, clock=clock, progress=lambda *_: None, anyway=True)
    store = ArtifactStore(config.artifacts)
    store.promote("words", done.name, by="tests", why="", clock=clock)
    manifest = store.in_force("words").manifest
    assert manifest["report"]["set_coverage"]["value"] > 0.7
    assert manifest["report"]["label_coverage"]["value"] > 0.7
    assert manifest["promises"][0]["share"] == "of all labels that hold are missing from their sets"
    handler = make_handler(config, {"words": LocalHost(RunningHost("words", model, store))}, database)
    with TestClient(gateway_app(handler, max_body_bytes=1 << 20)) as http:
        for word in WORDS[2:]:
            told = http.post("/v1/predict", json={"model": "words", "input": f"{word} ran"}).json()
            more = set(told["prediction_set"]) - set(told["prediction"])
            assert set(told["prediction_set"]) >= set(told["prediction"])
            full = len(told["prediction_set"]) == len(KINDS["multilabel"])
            assert (told["action"] == "answer") == (len(more) == 0 and not full)
            assert "be ruled out with at most 20% of the right labels missed" in told["reason"]
