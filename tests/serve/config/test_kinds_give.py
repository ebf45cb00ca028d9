"""What a model may give that is hosted in some way, and what is said of a score that reads something else."""

import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from demur.serve.config.file import Config
from demur.serve.config.hosts.kinds import HostConfig

PAGE = Path(__file__).parents[3] / "docs" / "models.md"

FULLEST = {
    "classifier": {"checkpoint": "some/model"},
    "sklearn": {"file": "m.skops"},
    "xgboost": {"file": "m.json"},
    "lightgbm": {"file": "m.txt"},
    "onnx": {"file": "m.onnx", "embedding": "hidden"},
    "python": {"class": "ours:Model"},
    "given": {
        "gives": ["probabilities", "reply", "embedding", "passes"],
        "embedding_size": 3,
        "passes": 2,
    },
    "remote": {
        "protocol": "oip_rest",
        "url": "http://127.0.0.1:1",
        "model": "m",
        "output": "p",
        "embedding": "hidden",
        "embedding_size": 3,
    },
    "transformers": {"checkpoint": "some/model"},
    "vllm": {"checkpoint": "some/model"},
    "openai": {"base_url": "http://127.0.0.1:1/v1", "model": "m"},
}
"""Each kind, with the settings with which it gives most."""

GIVING_LOGITS = {
    "given": {"gives": ["logits"], "embedding_size": None, "passes": None},
    "remote": {"gives": "logits"},
}
"""Settings with which a kind gives logits in the place of probabilities."""

ROWS = {
    "of logits": "logits",
    "of an embedding": "embedding",
    "of passes with dropout": "mc_probabilities",
    "of replies": "reply",
}
"""How a row of the page begins, and the part of an output that its scores read."""


def host(kind, **more):
    return TypeAdapter(HostConfig).validate_python({"kind": kind, **FULLEST[kind], **more})


def configured(kind, *scores, task=None, **more):
    section = {
        "task": {"kind": "binary", "labels": ["no", "yes"], **(task or {})},
        "host": {"kind": kind, **FULLEST[kind], **more},
        "scores": ["entropy", *scores],
        "confidence": {"score": "entropy"},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
    }
    return Config.model_validate({"models": {"mine": section}})


def test_the_page_names_every_kind():
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), flags=re.MULTILINE))
    assert named == set(FULLEST)


@pytest.mark.parametrize(("begins", "need"), ROWS.items())
def test_the_page_says_which_kinds_give_what_scores_read(begins, need):
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {begins}"))
    told = {word for word in re.findall(r"`(\w+)`", row.split("|")[2]) if word in FULLEST and word != "embedding"}
    more = GIVING_LOGITS if need == "logits" else {}
    assert told == {kind for kind in FULLEST if need in host(kind, **more.get(kind, {})).may_give}


@pytest.mark.parametrize("kind", FULLEST)
def test_all_kinds_give_probabilities(kind):
    assert "probabilities" in host(kind).may_give


@pytest.mark.parametrize(
    ("kind", "more", "score", "why"),
    [
        (
            "xgboost",
            {},
            "mahalanobis",
            "reads embedding, and a model of this `host.kind` gives none; or leave",
        ),
        (
            "lightgbm",
            {},
            "mahalanobis",
            "reads embedding, and a model of this `host.kind` gives none; or leave",
        ),
        ("onnx", {"embedding": None}, "mahalanobis", "write its name as host.embedding; or leave mahalanobis out"),
        (
            "remote",
            {"embedding": None, "embedding_size": None},
            "mahalanobis",
            "name where it is in its replies in `host.embedding`; or leave",
        ),
        ("classifier", {"zero_shot": {}}, "mahalanobis", "with host.zero_shot a text has none; or leave mahalanobis"),
        ("onnx", {}, "bald", "bald reads mc probabilities"),
        ("python", {}, "bald", "bald reads mc probabilities"),
        ("sklearn", {}, "bald", "bald reads mc probabilities"),
        ("remote", {}, "bald", "a server is asked once about each input"),
        ("remote", {}, "energy", "where it gives logits, write `host.gives: logits`"),
        ("onnx", {"gives": "probabilities"}, "max_logit", "host.gives says that the graph gives none"),
        ("sklearn", {}, "energy", "energy reads logits, and a model of this `host.kind` gives none"),
        ("given", {}, "energy", "add 'logits' there and send it"),
    ],
)
def test_a_score_that_reads_what_is_not_given_is_refused(kind, more, score, why):
    with pytest.raises(ValidationError) as refused:
        configured(kind, score, **more)
    assert why in str(refused.value)


@pytest.mark.parametrize("kind", ["classifier", "sklearn", "onnx", "python", "remote"])
def test_a_score_of_an_embedding_goes_with_what_may_give_one(kind):
    assert "embedding" in configured(kind, "mahalanobis").models["mine"].recipe.needs


@pytest.mark.parametrize("kind", ["python", "remote"])
def test_labels_that_the_model_does_not_name_are_not_renamed(kind):
    with pytest.raises(ValidationError, match=r"task\.rename: a model of this `host\.kind` names no labels of its own"):
        configured(kind, task={"rename": {"0": "no"}})
