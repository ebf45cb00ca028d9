import json
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from demur.calibration_store.shortfall import PromiseOutOfReach, RanksAtChance
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.fitting.fit import fit_model
from demur.serve.fitting.rerun import LoadedModel
from demur.traffic.table_file import BadDataFile
from tests.serve.conftest import WORDS
from tests.serve.hosting import RunningHost


def clock():
    return datetime(2026, 11, 21, tzinfo=UTC)


def config_for(checkpoint, tmp_path, **changes):
    model = {
        "task": {"kind": "multiclass", "labels": ["bad", "fair", "good"]},
        "host": {"kind": "classifier", "checkpoint": checkpoint, "mc_passes": 3},
        "scores": ["softmax_response", "bald", {"mahalanobis": {"shrinkage": 0.1}}],
        "confidence": {"score": "mahalanobis", "calibrator": "platt"},
        "policy": {"kind": "rejection_rate", "rate": 0.2, "otherwise": "abstain"},
        **changes,
    }
    return Config.model_validate({"artifacts": str(tmp_path / "artifacts"), "models": {"words": model}})


def texts(path, n=90, label=lambda i: ["bad", "fair", "good"][i % 3]):
    rows = [{"input": f"{WORDS[2 + i % 7]} {WORDS[3 + i % 5]} {WORDS[4 + i % 3]}", "label": label(i)} for i in range(n)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_text_model_is_fitted_and_served_like_any_other(tiny_bert, tmp_path):
    config = config_for(tiny_bert, tmp_path)
    seen = []
    rows = texts(tmp_path / "rows.jsonl")  # the model was never trained, and its scores rank by chance
    done = fit_model(config, "words", rows, clock=clock, progress=lambda *at: seen.append(at), anyway=True)
    assert seen == [(64, 90), (90, 90)]
    store = ArtifactStore(config.artifacts)
    manifest = store.load("words", done.name).manifest
    assert manifest["data"]["n"] == 90
    assert manifest["n_fitted"] + manifest["n_reported"] == 90
    assert {"accuracy", "ece", "ece_before", "auroc.mahalanobis", "prr.bald", "coverage"} <= set(manifest["report"])
    assert set(manifest["versions"]) >= {"demur", "torch", "numpy"}
    assert manifest["task"] == {"kind": "multiclass", "labels": 3}
    assert manifest["label_set_sha256"] == sha256(b'["bad", "fair", "good"]').hexdigest()
    assert [one["share"] for one in manifest["promises"]] == ["of the sets lack the right label"]
    assert (
        manifest["promises"][0]["assumption"] in manifest["promises"][0]["statement"]
        or not (manifest["promises"][0]["feasible"])
    )
    data = manifest["data"]
    assert (data["file"], data["since"], data["label_weights"]) == ("rows.jsonl", None, None)
    assert manifest["stored_anyway"][0].startswith("mahalanobis ranks errors no better than chance")
    for name in ("accuracy", "ece", "auroc.mahalanobis", "macro_f1"):
        line = manifest["report"][name]
        assert line["lower"] <= line["upper"], name
    assert manifest["report"]["accuracy"]["lower"] < manifest["report"]["accuracy"]["value"]

    store.promote("words", done.name, by="tests", why="", clock=clock)
    host = RunningHost("words", config.models["words"], store)
    (share,) = host.decide(["the cat sat", "a dog ran fast"])
    decided = share.decided
    assert decided.artifact == done.name
    assert set(decided.scores) == {"softmax_response", "bald", "mahalanobis"}
    assert set(decided.actions) <= {"answer", "abstain"}


def test_the_artifact_of_another_checkpoint_is_refused(tiny_bert, tiny_llama, tmp_path):
    config = config_for(tiny_bert, tmp_path)
    rows = texts(tmp_path / "rows.jsonl")
    done = fit_model(config, "words", rows, clock=clock, progress=lambda *_: None, anyway=True)
    store = ArtifactStore(config.artifacts)
    store.promote("words", done.name, by="tests", why="", clock=clock)
    other = config_for(tiny_llama, tmp_path).models["words"]
    host = RunningHost("words", other, store)
    assert host.artifact_name is None
    assert "another checkpoint" in host.trouble


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ('{"input": "the cat", "label": "ugly"}', "labels that the model does not have: ugly; it has: bad, fair, good"),
        ('{"input": "", "label": "bad"}', "row 1: input: the text is empty"),
        ('{"input": [[1]], "label": "bad"}', "row 1: input: this model takes a text"),
    ],
)
def test_bad_rows_are_named(tiny_bert, tmp_path, rows, why):
    (tmp_path / "rows.jsonl").write_text(rows)
    with pytest.raises(BadDataFile) as caught:
        fit_model(
            config_for(tiny_bert, tmp_path), "words", tmp_path / "rows.jsonl", clock=clock, progress=lambda *_: None
        )
    assert why in str(caught.value)


def test_a_score_at_chance_is_refused_and_nothing_stored(tiny_bert, tmp_path):
    config = config_for(tiny_bert, tmp_path)
    with pytest.raises(RanksAtChance, match=r"ranks errors no better than chance \(AUROC .*--anyway does so"):
        fit_model(config, "words", texts(tmp_path / "rows.jsonl"), clock=clock, progress=lambda *_: None)
    assert ArtifactStore(config.artifacts).names("words") == []


@pytest.mark.slow
def test_too_few_labels_for_the_promise_are_refused_before_the_model_runs(tiny_bert, tmp_path):
    policy = {"kind": "selective_risk", "max_risk": 0.05}
    config, rows, seen = config_for(tiny_bert, tmp_path, policy=policy), texts(tmp_path / "rows.jsonl"), []
    with pytest.raises(PromiseOutOfReach, match="with 36 labelled rows for the rule no limit can promise at most 5%"):
        fit_model(config, "words", rows, clock=clock, progress=lambda *at: seen.append(at))
    assert seen == []
    done = fit_model(config, "words", rows, clock=clock, progress=lambda *at: seen.append(at), anyway=True)
    manifest = ArtifactStore(config.artifacts).load("words", done.name).manifest
    assert manifest["report"]["coverage"]["value"] == 0  # it holds everything
    assert not manifest["promises"][0]["feasible"]
    assert any("no limit can promise" in remark for remark in done.remarks)


@pytest.mark.parametrize("asked", [True, False])
def test_sets_that_rule_nothing_out_are_refused_if_they_were_asked_for(tiny_bert, tmp_path, asked):
    sets = {"prediction_set": {"alpha": 0.01}} if asked else {}
    config, rows = config_for(tiny_bert, tmp_path, **sets), texts(tmp_path / "rows.jsonl")
    with pytest.raises(PromiseOutOfReach if asked else RanksAtChance) as caught:
        fit_model(config, "words", rows, clock=clock, progress=lambda *_: None)
    assert ("prediction sets at 1% error rule out no label; 99 would do" in str(caught.value)) == asked


def test_a_refused_fit_keeps_what_the_model_said(tiny_bert, tmp_path, monkeypatch):
    config = config_for(tiny_bert, tmp_path).model_copy(update={"data": tmp_path / "var"})
    rows, asked = texts(tmp_path / "rows.jsonl"), []
    run = LoadedModel.run

    def counted(self, inputs, needs, **further):
        asked.append(len(inputs))
        return run(self, inputs, needs, **further)

    monkeypatch.setattr(LoadedModel, "run", counted)
    common = {"clock": clock, "progress": lambda *_: None, "keep": True}
    with pytest.raises(RanksAtChance):
        fit_model(config, "words", rows, **common)
    assert asked == [64, 26]
    done = fit_model(config, "words", rows, anyway=True, **common)
    assert asked == [64, 26]
    assert any("The model was not run again on 90 rows" in remark for remark in done.remarks)
    again = fit_model(config, "words", rows, anyway=True, fresh=True, **common)
    assert asked == [64, 26] * 2
    assert again.fit.report == done.fit.report
    other = config_for(tiny_bert, tmp_path, host={"kind": "classifier", "checkpoint": tiny_bert, "mc_passes": 2})
    fit_model(other.model_copy(update={"data": tmp_path / "var"}), "words", rows, anyway=True, **common)
    assert asked == [64, 26] * 3
