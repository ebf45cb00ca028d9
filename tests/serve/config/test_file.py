from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import yaml

from demur.policies.conformal_sets import AdaptiveSets, ClassConditionalSets, RegularisedSets, SplitSets
from demur.serve.config.file import BadConfig
from demur.serve.config.hosts.kinds import HostConfig
from demur.serve.configuration import load_config
from tests.conftest import ROOT


def quickstart():
    return yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())


def load(tmp_path, content):
    path = tmp_path / "demur.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return load_config(path)


def test_the_quickstart_is_valid(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    config = load(tmp_path, quickstart())
    assert config.models["digits"].host.checkpoint == str(ROOT / "deploy/models/digits")
    assert config.data == ROOT / "var"
    assert config.artifacts == str(ROOT / "var/artifacts")
    assert config.models["digits"].spot_check == 0
    assert list(config.models["digits"].recipe.scores) == ["softmax_response", "entropy", "mahalanobis"]


@pytest.mark.parametrize("told", [0, 0.1, {"rate": 0.1, "groups": {"east": 0.2}, "allocate": "uncertainty"}])
def test_spot_checks_survive_the_way_to_another_process(tmp_path, told):
    content = quickstart()
    digits(spot_check=told)(content)
    config = load(tmp_path, content)
    again = type(config).model_validate(config.model_dump())
    assert again.models["digits"].spot_checks == config.models["digits"].spot_checks
    assert (again.models["digits"].spot_checks is None) == (told == 0)


HOSTS = [
    {"kind": "classifier", "checkpoint": "./model"},
    {"kind": "python", "class": "our_models:Digits", "settings": {"path": "x"}, "files": ["weights.json"]},
    {"kind": "given", "gives": ["probabilities"]},
    {"kind": "sklearn", "file": "model.skops"},
    {"kind": "xgboost", "file": "model.json"},
    {"kind": "lightgbm", "file": "model.txt"},
    {"kind": "onnx", "file": "model.onnx"},
    {"kind": "remote", "protocol": "oip_rest", "url": "http://127.0.0.1:1", "model": "m"},
    {"kind": "transformers", "checkpoint": "./model"},
    {"kind": "vllm", "checkpoint": "./model"},
    {"kind": "openai", "base_url": "https://one.example.com/v1", "model": "m"},
]


@pytest.mark.parametrize("host", HOSTS, ids=[host["kind"] for host in HOSTS])
def test_every_kind_of_host_survives_the_way_to_another_process(tmp_path, host):
    """`demur up` tells Ray the configuration as it is dumped."""
    content = quickstart()
    digits(host=host, confidence={"score": "softmax_response"}, scores=["softmax_response"])(content)
    if host["kind"] in ("transformers", "vllm", "openai"):
        digits(prompt={"probabilities": "samples"})(content)
    config = load(tmp_path, content)
    again = type(config).model_validate(config.model_dump())
    assert again.models["digits"].host == config.models["digits"].host


def test_there_is_a_host_of_every_kind():
    kinds = get_args(get_args(HostConfig)[0])
    assert {host["kind"] for host in HOSTS} == {get_args(kind.model_fields["kind"].annotation)[0] for kind in kinds}


@pytest.mark.parametrize(
    ("prediction_set", "sets"),
    [
        ({}, SplitSets(alpha=0.01, keep_predicted=True)),
        ({"alpha": 0.005}, SplitSets(alpha=0.005)),
        ({"kind": "split", "keep_predicted": False}, SplitSets(keep_predicted=False)),
        ({"kind": "adaptive", "alpha": 0.1}, AdaptiveSets(alpha=0.1)),
        ({"kind": "regularised", "penalty": 0.2, "k_reg": 2}, RegularisedSets(penalty=0.2, k_reg=2)),
        ({"kind": "class_conditional", "alpha": 0.05}, ClassConditionalSets(alpha=0.05)),
    ],
)
def test_without_a_kind_prediction_sets_are_split(tmp_path, prediction_set, sets):
    content = quickstart()
    content["models"]["digits"]["prediction_set"] = prediction_set
    assert load(tmp_path, content).models["digits"].recipe.sets == sets


def test_a_hub_name_and_a_url_are_left_alone(tmp_path):
    content = quickstart()
    content["artifacts"] = "s3://bucket/folder"
    content["models"]["digits"]["host"]["checkpoint"] = "somebody/some-model"
    config = load(tmp_path, content)
    assert config.artifacts == "s3://bucket/folder"
    assert config.models["digits"].host.checkpoint == "somebody/some-model"


def digits(**changes):
    return lambda c: c["models"]["digits"].update(changes)


def gated(*gates):
    return digits(policy={"kind": "all_of", "gates": list(gates), "rule": {"kind": "threshold", "limit": 0.5}})


def rule(**told):
    return lambda content: content.setdefault("review", {}).update(rules=[told])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (digits(outcomes={"precedence": ["lab", "lab"]}), "outcomes.precedence: 'lab' is named more than once"),
        (digits(outcomes={"precedence": [""]}), "outcomes.precedence.0: write at least 1 character"),
        (digits(outcomes={"order": []}), "outcomes.order: this key is not known"),
        (lambda c: c.update(databse="embedded"), "databse: this key is not known"),
        (digits(confidnce={}), "models.digits.confidnce: this key is not known"),
        (lambda c: c.update(database="mysql://x"), "database: write `embedded`, or an address"),
        (lambda c: c.pop("models"), "models: this key is missing"),
        (
            lambda c: c.update(keep_inputs_days=30, keep_records_days=7),
            "keep_inputs_days: an input goes with its record at the latest; give no more than keep_records_days, 7",
        ),
        (lambda c: c.update(keep_records_days=0), "keep_records_days: write more than 0, not 0"),
        (lambda c: c["http"].update(port=70000), "http.port: write at most 65,535, not 70000"),
        (digits(scores=["entropyy"]), "scores.0: 'entropyy' is not one of: softmax_response, entropy"),
        (digits(scores=["entropy", "entropy"]), "'entropy' is listed twice"),
        (
            digits(scores=[{"mahalanobis": {"shrink": 1}}]),
            "mahalanobis.shrink: mahalanobis has no such setting; it takes: shrinkage",
        ),
        (digits(scores=[{"mahalanobis": {"shrinkage": 2}}]), "shrinkage is 2.0, outside"),
        (
            digits(scores=[{"mahalanobis": {"shrinkage": "much"}}]),
            "scores.0.mahalanobis.shrinkage: shrinkage is 'much', not a number",
        ),
        (digits(scores=[{"entropy": {}, "margin": {}}]), "one name with its settings"),
        (digits(confidence={"score": "margin"}), "'margin' is not among the scores"),
        (digits(confidence={"score": "entropy", "calibrator": "spline"}), "'spline' is not one of: isotonic, platt"),
        (digits(policy={"max_risk": 0.1}), "policy.kind: this key is missing; write one of: threshold, target_risk"),
        (digits(policy={"kind": "target_risk"}), "policy.max_risk: this key is missing"),
        (
            digits(policy={"kind": "target_risk", "max_risk": 0.1, "delta": 0.05}),
            "policy.delta: target_risk has no such setting; it takes: max_risk, otherwise",
        ),
        (
            digits(policy={"kind": "threshold", "limit": 0.5, "otherwise": "guess"}),
            "'guess' is not one of: review, abstain",
        ),
        (digits(policy={"kind": "conformal", "answer_up_to": 0}), "answer_up_to is 0; it is at least 1"),
        (digits(policy={"kind": "conformal", "when_full": "guess"}), "'guess' is not one of: review, abstain"),
        (digits(prediction_set={"kind": "naive"}), "prediction_set.kind: 'naive' is not one of: split, adaptive"),
        (digits(prediction_set={"alpha": 1}), "prediction_set.alpha: alpha is 1.0, outside (0, 1)"),
        (  # a promise about a table of costs
            digits(policy={"kind": "selective_risk", "max_risk": 0.1, "loss": {"0": {"1": 0.5}}}),
            "policy.loss: selective_risk has no such setting; it takes: max_risk, delta, method, limits, bound,",
        ),
        (digits(prediction_set={"penalty": 0.1}), "split has no such setting; it takes: alpha, keep_predicted"),
        (digits(prediction_set={"kind": "regularised", "penalty": -1}), "penalty is -1.0, outside its range"),
        (digits(prediction_set={"kind": "regularised", "k_reg": -1}), "k_reg is -1; it is at least 0"),
        (digits(scores=[{"entropy": {"as": 5}}, "margin"]), "scores.0.entropy.as: 5 is no name; a name is a text"),
        (digits(policy={"kind": ["threshold"]}), "policy.kind: ['threshold'] is not one of: threshold"),
        (digits(policy={"kind": "cost", "matrix": None}), "policy.matrix: write a row of costs"),
        (gated({"parsable": None}), "policy.gates.0: write a name, or one name with its settings"),
        (gated({"in_distribution": 5}), "policy.gates.0: write a name, or one name with its settings"),
        (digits(prediction_set={"kind": ["split"]}), "prediction_set.kind: ['split'] is not one of: split"),
        (digits(spot_check=2), "models.digits.spot_check: write at most 1, not 2"),
        (digits(spot_check={"floor": 0.1}), "models.digits.spot_check.rate: this key is missing"),
        (
            digits(spot_check={"rate": 0}),
            "models.digits.spot_check.rate: write at least 0.000001, not 0",
        ),
        (digits(spot_check=1e-9), "models.digits.spot_check: write at least 0.000001, not 1"),
        (digits(spot_check={"rate": 0.1, "floor": 0.2}), "spot_check.rate: 0.1 is below the floor of 0.2"),
        (digits(spot_check={"rate": 0.1, "floor": 0.1, "groups": {"e": 0.05}}), "groups.e: 0.05 is below the floor"),
        (digits(spot_check={"rate": 0.1, "groups": {"e": 0}}), "spot_check.groups.e: write at least 0.000001, not 0"),
        (
            digits(spot_check={"rate": 0.1, "allocate": "random"}),
            "allocate: 'random' is not one of: uniform, uncertainty",
        ),
        (digits(spot_check="often"), "models.digits.spot_check: a number is wanted here, not 'often'"),
        (digits(spot_check=[0.1]), "models.digits.spot_check: a number is wanted here"),
        (digits(task={"kind": "multiclass", "labels": ["a", "a"]}), "labels.1: 'a' is listed twice"),
        (digits(task={"kind": "multiclass", "labels": ["a"]}), "has 2 labels or more"),
        (rule(), "review.rules.0: write what holds for these cases: `priority`, `due_minutes` or `opinions`"),
        (rule(priority=10), "review.rules.0.priority: write at most 9, not 10"),
        (rule(due_minutes=1e300), "review.rules.0.due_minutes: write at most 5,256,000"),
        (
            rule(opinions=2, when={"models": ["digit"]}),
            "rules.0.when.models.0: there is no model 'digit'; there are: dig",
        ),
        (
            rule(opinions=2, when={"models": []}),
            "review.rules.0.when.models: at least 1 entry is wanted here, and there are 0",
        ),
        (
            rule(opinions=2, when={"scores": {"margin": {"above": 1}}}),
            "when.scores.margin: model 'digits' has no score 'marg",
        ),
        (rule(opinions=2, when={"scores": {"entropy": {}}}), "scores.entropy: write `above`, `below` or both"),
        (rule(opinions=2, when={"confidence": {"above": 0.5, "below": 0.5}}), "nothing is above 0.5 and below 0.5"),
        (
            rule(opinions=2, when={"confidence": {"above": float("nan")}}),
            "confidence.above: a finite number is wanted here",
        ),
        (rule(opinions=2, when={"share": 0}), "review.rules.0.when.share: write more than 0"),
        (
            lambda c: c.update(review={"people": {"ada": {"adjudicates": True}}, "rules": [{"opinions": 2}]}),
            "review.rules.0.opinions: 2 people are to say something about a case, and 1 are named",
        ),
        (
            lambda c: c["models"].update({"Bad Name": c["models"]["digits"]}),
            "models.Bad Name: a model's name has lower",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, change, why):
    content = quickstart()
    change(content)
    with pytest.raises(BadConfig) as caught:
        load(tmp_path, content)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def labels(**task):
    scores = {"scores": ["binary_entropy"], "confidence": {"score": "binary_entropy"}}
    policy = {"kind": "rejection_rate", "rate": 0.1}
    return digits(task={"kind": "multilabel", "labels": ["a", "b"], **task}, policy=policy, prediction_set={}, **scores)


def test_a_label_tree_is_read_with_the_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("child,parent\nb,top\na,b\n")
    (tmp_path / "pairs.json").write_text('{"b": "top", "a": ["b"]}')
    tasks = []
    for tree in ("pairs.csv", "pairs.json", {"b": "top", "a": ["b"]}):
        content = quickstart()
        labels(tree=tree, thresholds={"fixed": {"limit": 0.6, "labels": {"top": 0.2}}})(content)
        tasks.append(load(tmp_path, content).models["digits"].task)
    for task in tasks:
        assert task.outputs == ("a", "b")
        assert task.labels == ("a", "b", "top")
        assert (task.tree.roots, task.tree.depth) == (1, 3)
        assert task.parents_sha256 == tasks[0].parents_sha256
        fitted = task.predictor.fit(np.zeros((1, 3)), None)
        assert fitted.of(np.array([[0.6, 0.1, 0.1], [0.5, 0.5, 0.3]])).tolist() == [[True] * 3, [False, False, True]]
    monkeypatch.chdir(ROOT)  # where the file is not: another process need not find it
    again = type(tasks[0]).model_validate(tasks[0].model_dump())
    assert again == tasks[0]
    assert again.tree.sha256 == tasks[0].tree.sha256


def test_imdrf_codes_are_their_own_tree(tmp_path):
    content = quickstart()
    labels(labels=["A040507", "E24"], tree="imdrf")(content)
    task = load(tmp_path, content).models["digits"].task
    assert task.labels == ("A040507", "E24", "A04", "A0405")
    assert task.with_ancestors(["A040507"]) == ["A040507", "A04", "A0405"]


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ({"tree": "imdrf"}, "models.digits.task.tree: code is 'a'; an IMDRF code is a letter and"),
        ({"tree": "nowhere.csv"}, "models.digits.task.tree: nowhere.csv: there is no such file"),
        ({"tree": {"a": "b", "b": "a"}}, "tree: parents go round in a circle: "),
        ({"tree": {"a": "a"}}, "tree: parents go round in a circle: a - a"),
        ({"tree": {"c": "a"}}, "tree: neither labels nor above one: c; take them out of the tree"),
        ({"tree": {"a": 1}}, "models.digits.task.tree: "),
        ({"tree": 1}, "models.digits.task.tree: "),
        ({"kind": "multiclass", "tree": {"a": "b"}}, "tree: this is for multilabel tasks"),
        ({"thresholds": {"fixed": {"labels": {"c": 0.3}}}}, "thresholds.fixed.labels.c: 'c' is not one of: a, b"),
        ({"thresholds": {"fixed": {"labels": {"a": 1.3}}}}, "thresholds.fixed.labels.a: a is 1.3, outside [0, 1]"),
        ({"thresholds": {"fixed": {"labels": ["a"]}}}, "write a mapping from labels to their limits"),
        (
            {"thresholds": {"max_f1": {"labels": {"a": 0.3}}}},
            "thresholds.max_f1.labels: max_f1 has no such setting; it takes: default",
        ),
    ],
)
def test_a_mistake_in_a_label_tree_is_named(tmp_path, task, why):
    content = quickstart()
    labels(**task)(content)
    with pytest.raises(BadConfig) as caught:
        load(tmp_path, content)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [("a: [1", "is not closed"), ("- 1", "has no keys with values"), ("", "has no keys with values")],
)
def test_what_is_no_configuration_at_all(tmp_path, content, why):
    with pytest.raises(BadConfig, match=why):
        load(tmp_path, content)


def test_a_missing_file_is_said():
    with pytest.raises(BadConfig, match="there is no configuration file"):
        load_config(Path("nowhere.yaml"))


def test_a_cascade_is_of_models_with_the_same_label_tree(tmp_path):
    content = quickstart()
    labels(tree={"a": "b"})(content)
    first = content["models"]["digits"]
    task = {**first["task"], "tree": {"b": "a"}}
    content["models"] = {"one": {**first, "escalate_to": "two"}, "two": {**first, "task": task}}
    with pytest.raises(BadConfig, match="'two' has another task than 'one'"):
        load(tmp_path, content)
    content["models"]["two"] = first
    assert list(load(tmp_path, content).cascade("one")) == ["one", "two"]


def test_a_cascade_that_acts_on_sets_has_sets_in_every_model(tmp_path):
    content = quickstart()
    labels()(content)
    second = content["models"]["digits"]
    first = {**second, "policy": {"kind": "risk_control"}, "escalate_to": "two"}
    content["models"] = {"one": first, "two": second}
    with pytest.raises(BadConfig, match="'two' cannot follow 'one': the policy acts on prediction sets"):
        load(tmp_path, content)
    content["models"]["two"] = {**second, "prediction_set": {"kind": "risk_control"}}
    assert list(load(tmp_path, content).cascade("one")) == ["one", "two"]


def test_a_rule_knows_the_scores_of_every_model_that_may_be_asked(tmp_path):
    content = quickstart()
    first = content["models"]["digits"]
    second = {**first, "scores": ["softmax_response", "margin"]}
    content["models"] = {"one": {**first, "escalate_to": "two"}, "two": second}
    rule(opinions=2, when={"models": ["one"], "scores": {"margin": {"above": 0.5}, "entropy": {"above": 1}}})(content)
    assert load(tmp_path, content).review.rules[0].opinions == 2
    rule(opinions=2, when={"scores": {"entropy": {"above": 1}}})(content)
    with pytest.raises(
        BadConfig, match="model 'two' has no score 'entropy'; it has: softmax_response, margin; or name"
    ):
        load(tmp_path, content)


def test_what_the_documentation_shows_of_reviews_is_taken(tmp_path):
    part = (ROOT / "docs/configuration.md").read_text().split("## Review\n")[1].split("## Scores\n")[0]
    shown = [yaml.safe_load(block.split("```")[0]) for block in part.split("```yaml\n")[1:]]
    content = quickstart()
    content["models"]["tickets"] = {**content["models"]["digits"], **shown[1]["models"]["tickets"]}
    content["review"] = shown[0]["review"]
    config = load(tmp_path, content)
    assert len(config.review.rules) == 4
    assert config.models["tickets"].spot_checks.least == 0.01
    listed = {line.split("`")[1].removeprefix("review.") for line in part.splitlines() if line.startswith("| `review.")}
    assert listed == set(type(config.review).model_fields)
