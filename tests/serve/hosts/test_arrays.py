"""Arrays that models gave, whatever kind of model it was."""

import numpy as np
import pytest

from demur.serve.config.task import TaskConfig
from demur.serve.hosts.arrays import ArrayReader
from demur.serve.hosts.kind import BadModelOutput

BINARY = ArrayReader(TaskConfig(kind="binary", labels=["no", "yes"]), "mine")
THREE = ArrayReader(TaskConfig(kind="multiclass", labels=["a", "b", "c"]), "mine")
MANY = ArrayReader(TaskConfig(kind="multilabel", labels=["a", "b"]), "mine")


@pytest.mark.parametrize("found", [[0.2, 0.9], [[0.2], [0.9]]])
def test_of_a_binary_task_the_second_label_alone_will_do(found):
    assert np.allclose(BINARY.probabilities(found, 2, of="f").probabilities, [[0.8, 0.2], [0.1, 0.9]])
    assert np.allclose(BINARY.logits(found, 2, of="f").probabilities[:, 1], 1 / (1 + np.exp(-np.ravel(found))))


def test_probabilities_come_back_from_their_logits():
    p = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    output = THREE.probabilities(p, 2, of="f")
    assert np.allclose(np.exp(output.logits), p)
    many = MANY.probabilities([[0.2, 0.7]], 1, of="f")
    assert np.allclose(1 / (1 + np.exp(-many.logits)), [[0.2, 0.7]])


def test_rows_of_nan_are_let_through_alone():
    output = THREE.probabilities([[0.2, 0.3, 0.5], [np.nan] * 3], 2, of="f")
    assert output.usable().tolist() == [True, False]


@pytest.mark.parametrize(
    ("reader", "found", "why"),
    [
        (THREE, [[0.5, 0.5]], r"f of mine gave \[1, 2\]; it should give \[1, 3\], a column for each label"),
        (THREE, [[0.5, 0.6, 0.2]], "come to 1.3, and labels that exclude each other come to 1"),
        (THREE, [[1.5, -0.5, 0.0]], "not between 0 and 1"),
        (MANY, [[1.5, 0.5]], "not between 0 and 1"),
        (THREE, "many", "gave no array of numbers"),
        (THREE, [[[1, 0, 0]]], r"gave \[1, 1, 3\]"),
    ],
)
def test_what_is_no_batch_of_probabilities_is_refused(reader, found, why):
    with pytest.raises(BadModelOutput, match=why):
        reader.probabilities(found, 1, of="f")


def test_a_vector_for_each_row():
    assert THREE.embedding([[1, 2], [3, 4]], 2, of="e").tolist() == [[1, 2], [3, 4]]
    for wrong in ([1, 2], [[1, 2]], [[], []]):
        with pytest.raises(BadModelOutput, match="a row for each input"):
            THREE.embedding(wrong, 2, of="e")
