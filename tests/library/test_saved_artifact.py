"""Artifacts that Python saves: a store loads them, and a service decides by them what Python decides."""

import hashlib
import json
from datetime import UTC, datetime

import numpy as np
import pytest

from demur.calibration_store.artifact import ArtifactRefused, ModelIdentity
from demur.calibration_store.store import ArtifactStore
from demur.library.model_identity import given_fingerprint, identity_of
from demur.library.selective_classifier import SelectiveClassifier
from demur.serve.config.file import Config
from demur.serve.config.fitted_settings import differences
from demur.serve.config.hosts.given import GivenHost
from demur.serve.hosts.identity import identity_of as identity_in_service
from demur.uncertainty.output import Output
from tests.library.rows import drawn
from tests.serve.hosting import RunningHost

POLICY = {"kind": "selective_risk", "max_risk": 0.2}

MODEL = """
import numpy as np

class Dice:
    '''The text tells the probabilities.'''

    example = "0.5 0.3 0.2"

    def predict_proba(self, texts):
        return np.array([[float(one) for one in text.split()] for text in texts])
"""


@pytest.fixture
def rows():
    return drawn(1200, np.random.default_rng(0))


@pytest.fixture
def fitted(rows):
    return SelectiveClassifier(
        policy=POLICY,
        scores=["entropy", {"margin": {"as": "gap"}}],
        confidence={"score": "gap", "calibrator": "platt"},
        prediction_set={"kind": "adaptive", "alpha": 0.1},
        labels=["low", "middle", "high"],
    ).fit(*rows)


def test_a_store_loads_it_and_it_decides_the_same(fitted, rows, tmp_path):
    saved = fitted.save(tmp_path, model="dice", identity="given")
    store = ArtifactStore(str(tmp_path))
    assert store.names("dice") == [str(saved)]
    artifact = store.load("dice", saved.name)
    judgement = artifact.selector.decide(Output.from_probabilities(rows[0]).only(artifact.selector.needs))
    table = fitted.decide(rows[0])
    assert judgement.decisions.reasons == tuple(table.reason.tolist())
    np.testing.assert_array_equal(judgement.confidence, table.confidence)
    np.testing.assert_array_equal(judgement.members, fitted.predict_set(rows[0]))
    assert store.standing("dice").in_force is None
    promoted = store.promote("dice", saved.name, by="a test", why="", clock=lambda: datetime.now(UTC))
    assert promoted.standing.in_force == saved.name
    assert saved.command == f"demur artifacts promote dice {saved.name}"


def test_the_manifest_tells_what_that_of_a_fit_tells(fitted, rows, tmp_path):
    saved = fitted.save(str(tmp_path), model="dice", identity="given")
    manifest = ArtifactStore(str(tmp_path)).load("dice", saved.name).manifest
    assert manifest["model"]["labels"] == ["low", "middle", "high"]
    assert [one["model"] for one in manifest["promises"]] == ["dice", "dice"]
    assert saved.promises == tuple(one["statement"] for one in manifest["promises"])
    assert manifest["data"]["n"] == 1200
    assert manifest["data"]["label_counts"] == dict(
        zip(("low", "middle", "high"), np.bincount(rows[1]).tolist(), strict=True)
    )
    assert manifest["report"] == json.loads(json.dumps(dict(fitted.report().fit.report)))
    assert manifest["n_fitted"] + manifest["n_reported"] == 1200
    assert manifest["stored_anyway"] == []
    again = SelectiveClassifier(**fitted.get_params()).fit(*rows).save(tmp_path, model="dice", identity="given")
    other = ArtifactStore(str(tmp_path)).load("dice", again.name).manifest
    assert other["data"]["sha256"] == manifest["data"]["sha256"]


def test_what_was_fitted_anyway_says_so(rows, tmp_path):
    strict = SelectiveClassifier(policy={"kind": "selective_risk", "max_risk": 0.001}, anyway=True).fit(*rows)
    saved = strict.save(tmp_path, model="dice", identity="given")
    assert "no limit can promise" in ArtifactStore(str(tmp_path)).load("dice", saved.name).manifest["stored_anyway"][0]


def test_an_identity_is_that_of_a_file_or_of_nothing(fitted, tmp_path):
    file = tmp_path / "model.skops"
    file.write_bytes(b"weights")
    labels = ("a", "b")
    found = identity_of(file, labels)
    assert found == ModelIdentity(
        checkpoint="model.skops", fingerprint=hashlib.sha256(b"weights").hexdigest(), labels=labels
    )
    assert identity_of(str(file), labels) == found
    assert identity_of(found, labels) == found
    assert identity_of("given", labels).checkpoint == "given"
    assert identity_of({}, labels) == identity_of("given", labels)
    named = identity_of({"model": "tumours", "version": "1"}, labels)
    host = GivenHost(kind="given", gives=["probabilities"], model="tumours", version="1")
    assert (named.checkpoint, named.fingerprint) == (host.model_name, given_fingerprint("tumours", "1"))
    with pytest.raises(ValueError, match="not 'modle'"):
        identity_of({"modle": "tumours"}, labels)
    with pytest.raises(ValueError, match="there is no file"):
        fitted.save(tmp_path, model="dice", identity=tmp_path / "missing")
    with pytest.raises(ValueError, match=r"SelectiveClassifier is no identity; give the path .* or 'given' where"):
        fitted.save(tmp_path, model="dice", identity=fitted)
    with pytest.raises(ValueError, match="it has the labels a, b, and the classifier has low, middle, high"):
        fitted.save(tmp_path, model="dice", identity=found)
    for name in ("", "../dice", "a b", "a/b"):
        with pytest.raises(ValueError, match="is not a name"):
            fitted.save(tmp_path, model=name, identity="given")


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """A service's configuration of the same model, as a class of the user's own."""
    (tmp_path / "dice_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return Config.model_validate(
        {
            "artifacts": str(tmp_path / "artifacts"),
            "models": {
                "dice": {
                    "task": {"kind": "multiclass", "labels": ["low", "middle", "high"]},
                    "host": {"kind": "python", "class": "dice_model:Dice"},
                    "scores": ["entropy", {"margin": {"as": "gap"}}],
                    "confidence": {"score": "gap", "calibrator": "platt"},
                    "policy": POLICY,
                    "prediction_set": {"kind": "adaptive", "alpha": 0.1},
                }
            },
        }
    )


def test_a_service_decides_what_python_decides(fitted, rows, configured):
    identity = identity_in_service(configured.models["dice"])
    saved = fitted.save(configured.artifacts, model="dice", identity=identity)
    store = ArtifactStore(configured.artifacts)
    assert differences("dice", configured.models, store.load("dice", saved.name).manifest) == {}
    store.promote("dice", saved.name, by="a test", why="", clock=lambda: datetime.now(UTC))
    host = RunningHost("dice", configured.models["dice"], store)
    (share,) = host.decide([" ".join(map(repr, row)) for row in rows[0][:200].tolist()])
    decided, table = share.decided, fitted.decide(rows[0][:200])
    assert {*decided.actions} == {"answer", "review"}
    assert decided.actions == table.action.tolist()
    assert decided.reasons == table.reason.tolist()
    assert decided.confidence == table.confidence.tolist()  # to the last bit
    assert decided.scores == {name: values.tolist() for name, values in table.scores.items()}
    names = ("low", "middle", "high")
    assert decided.predictions == [names[one] for one in table.prediction]
    assert [sorted(one) for one in decided.prediction_sets] == [sorted(names[at] for at in one) for one in table.sets]


def test_an_artifact_for_another_model_is_refused_by_the_service(fitted, configured):
    saved = fitted.save(configured.artifacts, model="dice", identity="given")
    artifact = ArtifactStore(configured.artifacts).load("dice", saved.name)
    with pytest.raises(ArtifactRefused, match="fitted for another checkpoint"):
        artifact.check_fits(identity_in_service(configured.models["dice"]))
