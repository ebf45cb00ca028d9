"""Scores that a device makes are those of the NumPy formulas: on a GPU, or on torch's CPU where there is none."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
import torch

from demur.calibration_store.artifact import pack
from demur.serve.contract.model import DeviceScore
from demur.serve.hosts.classifier import device_scores
from demur.serve.hosts.classifier.device_scores import device_score, made_of, probabilities_of_passes
from demur.serve.hosts.classifier.model import Classifier
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.deep_knn import DeepKnn
from demur.uncertainty.logit_scores import Energy
from demur.uncertainty.mahalanobis import fit_mahalanobis, fit_relative_mahalanobis
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import FORMULAS, Formula
from tests.conftest import digit_rows
from tests.serve.conftest import identity_of
from tests.serve.hosting import RunningHost

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
RTOL, ATOL = 1e-10, 1e-12
"""Both ways compute in double precision and differ by the order of their sums."""

TEXTS = ["the cat sat", "a dog ran fast fast fast", "red"]
PASSES = sorted(name for name, (_, part) in FORMULAS.items() if part == "mc_probabilities")


@pytest.fixture(autouse=True)
def device_makes_scores(monkeypatch):
    monkeypatch.setattr("demur.serve.hosts.classifier.model.DEVICES", frozenset({DEVICE.type}))


def fitted_on(features, classes, recipe):
    labels = np.asarray(classes)
    output = Output.from_logits(np.zeros((len(labels), labels.max() + 1)), embedding=features)
    return recipe.fit(LabelledOutput.of_classes(output, labels), np.ones(len(labels)))


def neighbours(features, classes):
    return fitted_on(features, classes, DeepKnn())


def cloud(seed, n=400, d=12, offset=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + offset, rng.integers(4, size=n)


def on_device(score, rows):
    made = device_score("a/b", score, DEVICE)
    assert made is not None
    (values,) = made_of([made], {made.part: torch.tensor(rows, device=DEVICE)})
    return values.cpu().numpy()


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("fit", [fit_mahalanobis, fit_relative_mahalanobis])
@pytest.mark.parametrize("one_class", [False, True])
def test_distances_to_classes(fit, one_class, offset):
    features, classes = cloud(0, offset=offset)
    score = fit(features, np.zeros_like(classes) if one_class else classes)
    asked = np.concatenate([features[:50], cloud(1, n=20)[0] * 30 + offset])
    near = np.abs(score.distance(asked)).max() * ATOL  # a difference of two large distances
    np.testing.assert_allclose(on_device(score, asked), score.distance(asked), rtol=RTOL, atol=near)


@pytest.mark.parametrize("k", [1, 10, 400, 5000])
def test_distances_to_neighbours(k):
    features, classes = cloud(2)
    score = fitted_on(features, classes, DeepKnn(k=k))
    asked = np.concatenate([features[:5], cloud(3)[0], np.zeros((1, 12)), features[:1] * 1e200, features[:1] * 1e-200])
    expected = score.distance(asked)
    assert np.isnan(expected[405])  # a row of zeros has no direction
    np.testing.assert_allclose(on_device(score, asked), expected, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("classes", [1, 2, 7])
@pytest.mark.parametrize("name", PASSES)
def test_statistics_of_dropout_passes(name, classes):
    logits = np.random.default_rng(4).normal(size=(50, 6, classes)) * 4
    logits[0], logits[1, :, 0] = 0.0, 2000.0  # torn between all, and sure beyond doubt
    output = Output.from_logits(logits[:, 0], mc_logits=logits)
    made = device_score("a/b", Formula(name=name), DEVICE)
    values = made_of([made], {"mc_probabilities": probabilities_of_passes(torch.tensor(logits, device=DEVICE))})
    np.testing.assert_allclose(values[0].cpu().numpy(), Formula(name=name).of(output), rtol=RTOL, atol=ATOL)


def test_every_score_of_passes_has_its_twin():
    assert sorted(device_scores.OF_PASSES) == PASSES


@pytest.mark.parametrize("score", [Formula(name="softmax_response"), Formula(name="max_logit"), Energy()])
def test_scores_of_what_leaves_the_device_anyway_stay_in_numpy(score):
    assert device_score("a/b", score, DEVICE) is None


def test_what_has_no_room_on_the_device_stays_in_numpy(monkeypatch, caplog):
    def full(*_):
        raise torch.OutOfMemoryError("20 GiB were asked for")

    monkeypatch.setattr(device_scores, "_placed", full)
    assert device_score("digits-1/deep_knn", neighbours(*cloud(5)), DEVICE) is None
    assert "digits-1/deep_knn is made by the CPU: 20 GiB" in caplog.text


@pytest.mark.parametrize("fit", [fit_mahalanobis, neighbours])
def test_embeddings_of_another_width_are_told(fit):
    with pytest.raises(InvalidInput, match="features have 3 dimensions; 12 were fitted"):
        on_device(fit(*cloud(6)), np.zeros((2, 3)))


def test_what_is_not_a_number_is_not_read():
    features, classes = cloud(7)
    asked = features[:4].copy()
    asked[1, 3], asked[2, 0] = np.nan, np.inf
    values = on_device(fit_mahalanobis(features, classes), asked)
    assert np.isneginf(values).tolist() == [False, True, True, False]


def scored(classifier, texts, scores, needs=("probabilities",)):
    made = [classifier.on_device(f"x/{name}", score) for name, score in scores.items()]
    torch.manual_seed(0)  # dropout draws alike
    return classifier.run(texts, frozenset(needs), made), made


def test_a_classifier_makes_them_of_its_own_parts(tiny_bert):
    classifier = Classifier.of_checkpoint(tiny_bert, mc_passes=4)
    torch.manual_seed(0)
    plain = classifier.run(TEXTS, frozenset({"probabilities", "embedding", "mc_probabilities"}))
    rng = np.random.default_rng(8)
    features = np.concatenate([plain.embedding, rng.normal(size=(60, 16))])
    scores = {
        "mahalanobis": fit_mahalanobis(features, rng.integers(3, size=63)),
        "deep_knn": fitted_on(features, rng.integers(3, size=63), DeepKnn(k=2)),
        "bald": Formula(name="bald"),
    }
    output, made = scored(classifier, TEXTS, scores)
    assert output.embedding is None
    assert output.mc_probabilities is None
    np.testing.assert_array_equal(output.logits, plain.logits)
    for one, score in zip(made, scores.values(), strict=True):
        assert one.needs == frozenset()
        np.testing.assert_allclose(one.of(output), score.of(plain), rtol=1e-9, atol=1e-9)
    both, _ = scored(classifier, TEXTS, scores, ("embedding", "mc_probabilities"))  # another score reads them in NumPy
    np.testing.assert_array_equal(both.embedding, plain.embedding)
    np.testing.assert_array_equal(both.mc_probabilities, plain.mc_probabilities)


def test_an_output_without_the_score_says_so(tiny_bert):
    classifier = Classifier.of_checkpoint(tiny_bert, mc_passes=4)
    output, _ = scored(classifier, TEXTS, {"bald": Formula(name="bald")})
    absent = DeviceScore(name="y/bald", part="mc_probabilities", compute=lambda rows: rows)
    for one in (output, classifier.run(TEXTS, frozenset())):
        with pytest.raises(InvalidInput, match="did not make the score y/bald"):
            absent.of(one)


def test_only_the_artifact_that_reads_a_broken_part_holds_its_row():
    made = np.array([(0.1, -np.inf), (0.2, 0.3)], dtype=[("a/knn", float), ("b/bald", float)])
    output = Output(logits=np.zeros((2, 2)), probabilities=np.full((2, 2), 0.5), device_scores=made)
    assert output.only(frozenset(), ["a/knn"]).usable().tolist() == [True, True]
    assert output.only(frozenset(), ["b/bald"]).usable().tolist() == [False, True]
    assert output.only(frozenset()).device_scores is None
    assert output.only(frozenset(), ["c/knn"]).device_scores is None
    undefined = replace(output, device_scores=np.array([(np.nan,), (0.3,)], dtype=[("a/knn", float)]))
    assert undefined.usable().all()


@pytest.fixture
def reads_embedding(two):
    """A store whose artifact in force has a score of embeddings and one of passes, and the host's inputs."""
    config, store, first, second = two
    artifact = store.load("digits", first)
    scores = {**artifact.selector.scores, "bald": Formula(name="bald")}
    files = pack(replace(artifact.selector, scores=scores), model="digits", identity=identity_of(artifact), facts={})
    store.save("digits", files)
    store.promote("digits", files.name, by="ada", why="", clock=lambda: datetime.now(UTC))
    return config, store, files.name, second


@pytest.fixture(scope="module")
def inputs(digits):
    return [np.asarray(row["input"], dtype=np.float32)[np.newaxis] for row in digit_rows(digits)[:64]]


def decided(config, store, inputs):
    host = RunningHost("digits", config.models["digits"], store)
    torch.manual_seed(0)
    (share,) = host.decide(inputs)
    return host, share


def test_a_host_decides_alike_wherever_scores_are_made(reads_embedding, inputs, monkeypatch):
    config, store, *_ = reads_embedding
    host, there = decided(config, store, inputs)
    lifted = [k for k, one in host.panel.lineup.in_force.selector.scores.items() if isinstance(one, DeviceScore)]
    assert "bald" in lifted
    assert len(lifted) > 1
    assert not host.panel.lineup.needs & {"embedding", "mc_probabilities"}
    monkeypatch.setattr("demur.serve.hosts.classifier.model.DEVICES", frozenset())
    in_numpy, here = decided(config, store, inputs)
    assert in_numpy.panel.lineup.needs >= {"embedding", "mc_probabilities"}
    assert there.decided.actions == here.decided.actions
    assert there.decided.predictions == here.decided.predictions
    for score, values in here.decided.scores.items():
        assert there.decided.scores[score] == pytest.approx(values, rel=1e-6, abs=1e-6), score  # dropout draws apart


def test_a_shadow_without_its_scores_is_left_out(reads_embedding, inputs, monkeypatch):
    config, store, name, second = reads_embedding
    told = {"by": "ada", "why": "", "clock": lambda: datetime.now(UTC)}
    store.promote("digits", second, **told)
    store.shadow("digits", name, **told)
    host, share = decided(config, store, inputs)
    assert share.shadow is not None
    run = host.model.run

    def broken(batch, needs, *scores):
        if scores:
            raise torch.OutOfMemoryError("no room for distances")
        return run(batch, needs)

    monkeypatch.setattr(host.model, "run", broken)
    (share,) = host.decide(inputs)
    assert share.decided.artifact == second
    assert share.shadow is None
    assert "no room for distances" in host.trouble
