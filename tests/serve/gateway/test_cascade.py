"""A small model, a larger one, a person: fitted together, stored as one artifact, followed by the gateway."""

import asyncio
import json
from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from transformers import BertConfig, BertForSequenceClassification

from demur.audit.state import alarms
from demur.audit.state.alarms import AlarmKind, OnAlarm
from demur.calibration_store.artifact import ArtifactRefused
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from demur.policies.decision import Action
from demur.serve.config.file import Config
from demur.serve.contract.hosts import Step
from demur.serve.contract.rows import PendingRow
from demur.serve.contract.wire import PredictRequest
from demur.serve.fitting.compare import compare_on_file
from demur.serve.fitting.fit import fit_model
from demur.serve.fitting.replay import replay_traffic
from demur.serve.gateway.left_out import LeftOut
from demur.serve.gateway.model_client import ModelClient
from demur.serve.hosts.classifier.model import Classifier
from demur.serve.web.native.app import gateway_app
from demur.traffic.draw import Draws
from tests.serve.conftest import DRAW_KEY, LABELS, WORDS, LocalHost, make_handler, save_tokenizer
from tests.serve.hosting import RunningHost

LIMIT = 0.6


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Two encoders that disagree."""
    folders = {}
    for seed, name in enumerate(("small", "large")):
        torch.manual_seed(seed)
        folders[name] = str(tmp_path_factory.mktemp(name))
        settings = {"hidden_size": 16, "num_hidden_layers": 1 + seed, "num_attention_heads": 2, "intermediate_size": 32}
        config = BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, id2label=LABELS, **settings)
        config.initializer_range = 0.7
        BertForSequenceClassification(config).save_pretrained(folders[name])
        save_tokenizer(folders[name])
    return folders


def texts(n):
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS[2:], size=6)) for _ in range(n)]


@pytest.fixture(scope="module")
def labelled(checkpoints, tmp_path_factory):
    """The small model is right about what it is sure of, and the large one about the rest."""
    inputs = texts(600)
    said = {
        name: Classifier.of_checkpoint(folder, device="cpu").run(inputs, frozenset())
        for name, folder in checkpoints.items()
    }
    sure = said["small"].probabilities.max(axis=1)
    best = {name: output.probabilities.argmax(axis=1) for name, output in said.items()}
    truth = np.where(sure > np.median(sure), best["small"], best["large"])
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    rows = [{"input": text, "label": LABELS[label]} for text, label in zip(inputs, truth.tolist(), strict=True)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def configured(checkpoints, folder, **changes):
    def model(name, **settings):
        return {
            "task": {"kind": "multiclass", "labels": list(LABELS.values())},
            "host": {"kind": "classifier", "checkpoint": checkpoints[name], "device": "cpu"},
            "scores": ["softmax_response"] if name == "small" else ["entropy"],
            "confidence": {"score": "softmax_response" if name == "small" else "entropy"},
            "policy": {"kind": "threshold", "limit": LIMIT},
            **settings,
        }

    models = {"small": model("small", **{"escalate_to": "large", **changes}), "large": model("large")}
    return Config.model_validate({"artifacts": str(folder), "models": models})


@pytest.fixture(scope="module")
def config(checkpoints, labelled, tmp_path_factory):
    """Both models with an artifact in force: that of the small one decides for both."""
    config = configured(checkpoints, tmp_path_factory.mktemp("artifacts"))
    store = ArtifactStore(config.artifacts)
    for name in config.models:
        done = fit_model(config, name, labelled, clock=clock, progress=lambda *_: None, anyway=True)
        store.promote(name, done.name, by="tests", why="", clock=clock)
    return config


@pytest.fixture(scope="module")
def hosts(config):
    store = ArtifactStore(config.artifacts)
    return {name: LocalHost(RunningHost(name, model, store)) for name, model in config.models.items()}


def client(config, hosts, database):
    return TestClient(gateway_app(make_handler(config, hosts, database), max_body_bytes=1 << 20))


def ask(http, text, **headers):
    return http.post("/v1/predict", json={"model": "small", "input": text}, headers=headers).json()


def test_what_the_small_model_does_not_answer_the_large_one_is_asked_and_then_a_person(config, hosts, database):
    store = ArtifactStore(config.artifacts)
    artifact = store.name_in_force("small")
    seen = set()
    with client(config, hosts, database) as http:
        for text in texts(60):
            told = ask(http, text)
            steps = told["steps"]
            assert told["artifact"] == artifact != store.name_in_force("large")
            assert [step["model"] for step in steps] == ["small", "large"][: len(steps)]
            assert [step["action"] for step in steps[:-1]] == [Action.ESCALATE] * (len(steps) - 1)
            last = steps[-1]
            assert {name: told[name] for name in last if name != "model"} == {
                name: value for name, value in last.items() if name != "model"
            }
            assert (told["confidence"] >= LIMIT) == (told["action"] == "answer")
            assert set(told["scores"]) == {"softmax_response" if len(steps) == 1 else "entropy"}
            assert http.get(f"/v1/predictions/{told['id']}").json()["steps"] == steps
            assert (told["review"] is not None) == (told["action"] == "review")
            seen.add((len(steps), told["action"]))
    assert seen == {(1, "answer"), (2, "answer"), (2, "review")}


def test_a_batch_of_both_models_takes_each_row_on_its_own_road(config, hosts, database):
    with client(config, hosts, database) as http:
        alone = [ask(http, text) for text in texts(30)]
        items = [{"model": model, "input": text} for text in texts(30) for model in ("small", "large")]
        together = http.post("/v1/predict/batch", json={"items": items}).json()["results"]
        for at, single in enumerate(alone):
            in_company = together[2 * at]["prediction"]
            for name in ("prediction", "action", "artifact"):
                assert in_company[name] == single[name]
            assert in_company["confidence"] == pytest.approx(single["confidence"])
            assert [step["model"] for step in in_company["steps"]] == [step["model"] for step in single["steps"]]
            assert together[2 * at + 1]["prediction"]["steps"] is None  # asked directly, it is a model like any other


def test_a_retry_is_told_the_same_steps(config, hosts, database):
    with client(config, hosts, database) as http:
        told = [ask(http, texts(1)[0], **{"Idempotency-Key": "one"}) for _ in range(2)]
    assert told[0] == told[1]


class Silent:
    """The large model, out of order."""

    def __init__(self, host, error):
        self.host, self.error = host, error

    async def state(self):
        return await self.host.state()

    async def decide_next(self, inputs, groups, step):
        raise self.error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("out of memory"), "model large was asked: the model failed on this input, and what is unknown"),
        (TimeoutError(), "model large was asked: the model gave no answer within 10 s"),
    ],
)
def test_what_the_large_model_fails_on_is_held_with_what_the_small_one_said(config, hosts, database, error, reason):
    with client(config, {**hosts, "large": Silent(hosts["large"], error)}, database) as http:
        told = [ask(http, text) for text in texts(20)]
    escalated = [one for one in told if one["steps"][-1]["action"] == Action.ESCALATE]
    assert 0 < len(escalated) < 20
    for one in escalated:
        assert one["action"] == "review"
        assert one["reason"].startswith(reason)
        assert one["prediction"] == one["steps"][0]["prediction"]


class Particular:
    """The large model, which is not the one that some artifacts were fitted for."""

    async def decide_next(self, inputs, groups, step):
        if step.artifact == "another":
            raise ArtifactNotFound("artifact another was fitted for another checkpoint")
        return SimpleNamespace(artifact=step.artifact, model_milliseconds=1.0, outages=None)


def test_an_artifact_that_cannot_decide_holds_up_none_of_the_others(config):
    async def together():
        client = ModelClient("large", config.models["large"], Particular(), Draws(DRAW_KEY, "canary"))
        request = PredictRequest(model="small", input="text")
        asked = [
            PendingRow(uuid4(), request, "text", 0.0, step=Step("small", name))
            for name in ("good", "another", "good", "better")
        ]
        return [row for (row,) in await asyncio.gather(*(client.decide_next([one]) for one in asked))]

    rows = asyncio.run(together())
    assert [row.share and row.share.decided.artifact for row in rows] == ["good", None, "good", "better"]
    assert rows[1].why_none == "it cannot decide: artifact another was fitted for another checkpoint"


@pytest.mark.slow  # it brings Ray
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("error", [ArtifactNotFound("why"), ArtifactRefused("why"), ArtifactsUnreachable("why")])
def test_an_artifact_that_cannot_be_had_is_told_and_not_taken_for_a_failure_on_some_input(error):
    from demur.serve.deployments.hosts import ModelReplica, NoArtifact

    async def decide_next(inputs, groups, step):
        raise error

    host = ModelReplica.__new__(ModelReplica)
    host._traces, host._host = None, SimpleNamespace(decide_next=decide_next)
    assert asyncio.run(host.decide_next(["text"], [None], Step("small", "one"))) == NoArtifact("why")


def test_a_model_that_is_not_served_cannot_be_asked(config, hosts, database):
    with client(config, {"small": hosts["small"]}, database) as http:
        told = [ask(http, text) for text in texts(20)]
    assert {one["reason"] for one in told if one["action"] == "review"} == {
        "model large was to be asked and is not served"
    }


def test_what_a_model_that_is_left_out_was_to_be_asked_is_held(config, hosts, database):
    with client(config, {**hosts, "large": LeftOut("there is no GPU")}, database) as http:
        answers = [ask(http, text) for text in texts(30)]
    held = [answer for answer in answers if answer["action"] == "review"]
    assert held
    assert {answer["reason"] for answer in held} == {
        "model large was to be asked and could not be: model 'large' is not served: there is no GPU"
    }
    assert any(answer["action"] == "answer" for answer in answers)


def test_the_large_model_goes_by_the_artifact_that_the_small_one_named(config, hosts):
    large = hosts["large"].host
    artifact = ArtifactStore(config.artifacts).name_in_force("small")
    decided = large.decide_next(texts(3), [None] * 3, Step("small", artifact))
    assert decided.artifact == artifact
    assert decided.asks_next == ""
    with pytest.raises(ArtifactRefused, match="has no step for the model 'large'"):
        large.decide_next(texts(3), [None] * 3, Step("large", ArtifactStore(config.artifacts).name_in_force("large")))


def test_an_artifact_is_bound_to_every_model_of_its_cascade(config, checkpoints, tmp_path):
    artifact = ArtifactStore(config.artifacts).in_force("small")
    assert artifact.selector.asks_next == "large"
    assert list(artifact.further) == ["large"]
    assert artifact.further["large"].policy.limit == artifact.selector.policy.limit == LIMIT
    assert artifact.manifest["cascade"]["large"]["model"]["checkpoint"] == checkpoints["large"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"escalate_to": "small"}, "goes round in a circle: small - small"),
        ({"escalate_to": "huge"}, "there is no model 'huge'; there are: small, large"),
    ],
)
def test_a_cascade_ends(checkpoints, tmp_path, change, why):
    with pytest.raises(ValueError, match=why):
        configured(checkpoints, tmp_path, **change)


def test_models_of_a_cascade_have_the_same_labels(checkpoints, tmp_path):
    other = {"kind": "multiclass", "labels": ["good", "fair", "bad"]}
    with pytest.raises(ValueError, match="'large' has another task than 'small'"):
        configured(checkpoints, tmp_path, task=other)


COSTS = {label: {other: float(label != other) for other in LABELS.values()} for label in LABELS.values()}


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"kind": "selective_risk", "max_risk": 0.1}, "a cascade has several; set `method: ltt`"),
        ({"kind": "threshold", "score": "softmax_response", "limit": 0.3}, "the policy looks at softmax_response"),
        ({"kind": "cost", "matrix": COSTS}, "give a policy with a `matrix` there as well"),
        (
            {"kind": "all_of", "gates": ["parsable"], "rule": {"kind": "selective_risk", "max_risk": 0.1}},
            "a cascade has several; set `method: ltt`",
        ),
    ],
)
def test_a_policy_that_cannot_decide_about_the_next_model_is_refused_before_a_model_is_run(
    checkpoints, tmp_path, policy, why
):
    with pytest.raises(ValueError, match=f"models.small.escalate_to: 'large' cannot follow 'small': .*{why}"):
        configured(checkpoints, tmp_path, policy=policy)


def test_a_cascade_is_replayed_and_compared_on_its_whole_road(config, hosts, labelled, database):
    store = ArtifactStore(config.artifacts)
    alone = configured({name: model.host.checkpoint for name, model in config.models.items()}, config.artifacts)
    alone = Config.model_validate(
        {
            "artifacts": config.artifacts,
            "models": {"small": {**alone.models["small"].model_dump(by_alias=True), "escalate_to": None}},
        }
    )
    without = fit_model(alone, "small", labelled, clock=clock, progress=lambda *_: None, anyway=True).name
    with client(config, hosts, database) as http:
        told = [ask(http, text) for text in texts(40)]
    answered = sum(one["action"] == "answer" for one in told)
    by_large = sum(one["action"] == "answer" and len(one["steps"]) == 2 for one in told)
    assert by_large > 0
    everything = {"since": None, "until": None, "progress": lambda *_: None}
    again = replay_traffic(config, "small", store.name_in_force("small"), database, **everything).numbers
    assert (again.now.answered, again.answered_to_held, again.held_to_answered) == (answered, 0, 0)
    first_only = replay_traffic(config, "small", without, database, **everything).numbers
    assert first_only.now.answered == answered - by_large
    found = compare_on_file(config, "small", without, store.name_in_force("small"), labelled, progress=lambda *_: None)
    coverage = {one.name: one for one in found.numbers.differences}["coverage"]
    assert coverage.b > coverage.a + 0.1


def test_an_artifact_is_refused_at_the_swap_if_a_later_model_is_another_one(config, checkpoints):
    store = ArtifactStore(config.artifacts)
    small = config.models["small"]
    other = config.models["large"].model_copy(update={"host": small.host})  # the checkpoint of the small one
    host = RunningHost("small", small, store, others={"small": small, "large": other})
    assert host.artifact_name is None
    assert "was fitted for another checkpoint" in host.trouble
    host = RunningHost("small", small, store, others={"small": small})
    assert "asks the model 'large' next, which is not configured" in host.trouble
    away = config.models["large"].model_copy(
        update={"host": config.models["large"].host.model_copy(update={"checkpoint": "/not/on/this/machine"})}
    )
    assert RunningHost("small", small, store, others={"small": small, "large": away}).trouble == ""


def test_an_alarm_holds_the_answers_of_every_model_of_the_cascade(config, hosts, database):
    handler = make_handler(config, hosts, database)
    with TestClient(gateway_app(handler, max_body_bytes=1 << 20)) as http:
        before = [ask(http, text) for text in texts(60)]
        with database.transaction() as connection:
            alarms.raise_alarm(
                connection,
                model="small",
                artifact="small-1",
                kind=AlarmKind.RISK,
                round=1,
                words="",
                evidence={},
                action=OnAlarm.HOLD_ALL,
            )
        handler.polls["alarms"].look()
        after = [ask(http, text) for text in texts(60)]
    assert {(len(one["steps"]), one["action"]) for one in before} >= {(1, "answer"), (2, "answer")}
    assert {one["action"] for one in after} == {"review"}
    assert [one["steps"] for one in after] == [one["steps"] for one in before]  # asked as ever
