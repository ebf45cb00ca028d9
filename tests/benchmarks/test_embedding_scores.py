"""Tables of scores of embeddings: what can be answered, and the document that they stand in."""

import numpy as np
import pytest
from rich.console import Console

from benchmarks.real import embedding_scores
from benchmarks.real.document import with_tables
from benchmarks.real.embedding_scores import NO_CLASS, Texts, answered, distances, measure
from demur.uncertainty.output import Output
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("correct", "risk", "share"),
    [([1, 1, 1, 0], 0.1, 0.75), ([0, 1, 1, 1], 0.1, 0.0), ([0, 1, 1, 1], 0.25, 1.0), ([1, 0, 1, 1], 0.25, 1.0)],
)
def test_answered_is_the_largest_share_that_is_right_often_enough(correct, risk, share):
    assert answered(np.array(correct, dtype=float), np.arange(4.0), risk) == share


def test_distances_find_what_lies_far_away():
    rng = np.random.default_rng(0)
    centres = np.eye(3) * 9
    classes = np.repeat(np.arange(3), 40)
    near, far = centres[classes] + rng.normal(size=(120, 3)), -centres[classes[:30]] + rng.normal(size=(30, 3))
    embedding = np.concatenate([near, far])
    logits = embedding @ centres.T / 9
    texts = Texts(
        data="toy",
        output=Output(
            logits=logits, probabilities=np.exp(logits) / np.exp(logits).sum(1)[:, None], embedding=embedding
        ),
        classes=np.concatenate([classes, np.full(30, NO_CLASS)]),
        same=np.arange(150),
        trained=near,
        trained_classes=classes,
    )
    for u in distances(texts, near, classes).values():
        assert u[120:].min() > np.median(u[:120])
    rows = {row[1]: row for row in measure(texts, Console(quiet=True))}
    assert len(rows) == 11
    assert rows["deep_knn, of training rows"][-1].startswith("1.000")


def test_the_document_shows_every_table():
    shown = ("accuracy", "embeddings")
    with_tables((ROOT / "docs/evidence/embeddings.md").read_text(), dict.fromkeys(shown, "| x |"))


def test_without_data_it_says_so(tmp_path, capsys):
    assert embedding_scores.main(["--data", str(tmp_path)]) == 0
    assert "nothing is measured" in capsys.readouterr().out
