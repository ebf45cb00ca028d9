import numpy as np
import pytest

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.label_tree import LabelTree
from demur.uncertainty.output import Output

TREE = LabelTree(width=3, children=np.array([0.0, 2.0]), parents=np.array([2.0, 1.0]))


def test_softmax_does_not_overflow_and_is_exact_in_float64():
    output = Output.from_logits(np.array([[1000.0, 0.0], [0.0, 0.0]], dtype=np.float32))
    np.testing.assert_array_equal(output.probabilities, [[1.0, 0.0], [0.5, 0.5]])
    assert output.probabilities.dtype == np.float64


def test_a_row_is_usable_when_every_part_of_it_is_finite():
    embedding = np.ones((4, 2))
    embedding[1, 0] = np.inf
    mc_logits = np.zeros((4, 3, 2))
    mc_logits[2, 1, 0] = np.nan
    output = Output.from_logits(np.zeros((4, 2)), embedding=embedding, mc_logits=mc_logits)
    assert output.usable().tolist() == [True, False, False, True]


def test_joining_and_taking_rows_are_inverse():
    output = Output.from_logits(np.arange(8.0).reshape(4, 2), embedding=np.arange(4.0)[:, None])
    again = Output.concatenate([output.rows(np.array([0, 1])), output.rows(np.array([2, 3]))])
    assert {name: part.tolist() for name, part in again.parts().items()} == {
        name: part.tolist() for name, part in output.parts().items()
    }


def test_parts_of_different_batches_do_not_make_one():
    with pytest.raises(InvalidInput, match="lengths differ: logits 4, probabilities 4, embedding 3"):
        Output.from_logits(np.zeros((4, 2)), embedding=np.zeros((3, 5)))


def test_under_a_tree_no_label_is_more_probable_than_what_lies_above_it():
    logits = np.random.default_rng(0).normal(size=(50, 2)) * 10
    mc_logits = logits[:, None] + np.random.default_rng(1).normal(size=(50, 4, 2))
    plain = Output.from_logits(logits, link="sigmoid", mc_logits=mc_logits)
    closed = Output.from_logits(logits, link="sigmoid", mc_logits=mc_logits, tree=TREE)
    for name in ("logits", "probabilities", "mc_probabilities"):
        raw, risen = getattr(plain, name), getattr(closed, name)
        np.testing.assert_array_equal(risen[..., 0], raw[..., 0])  # nothing lies below it
        np.testing.assert_array_equal(risen[..., 2], raw[..., 0])  # which the model has no output for
        np.testing.assert_array_equal(risen[..., 1], raw.max(axis=-1))
    assert closed.usable().all()
    assert Output.from_logits([[np.nan, 0.0]], link="sigmoid", tree=TREE).usable().tolist() == [False]
    with pytest.raises(InvalidInput, match="exclude each other"):
        Output.from_logits(logits, tree=TREE)


def test_probabilities_have_their_logarithms_as_logits_and_nan_stays_in_its_row():
    output = Output.from_probabilities([[0.25, 0.75], [np.nan, 0.5], [1.0, 0.0]])
    np.testing.assert_array_equal(output.logits[0], np.log([0.25, 0.75]))
    assert output.usable().tolist() == [True, False, True]
    labels = Output.from_probabilities([[0.5, 1.0]], link="sigmoid")
    assert labels.logits[0, 0] == 0
    assert np.isfinite(labels.logits).all()


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([[0.5, 0.6]], "come to 1.1, and labels that exclude each other come to 1"),
        ([[-0.1, 1.1]], "not between 0 and 1"),
        ([[np.inf, 0.0]], "not between 0 and 1"),
    ],
)
def test_numbers_that_are_no_probabilities_are_refused(rows, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        Output.from_probabilities(rows)


def test_single_precision_leaves_rows_that_every_score_takes():
    rows = np.random.default_rng(0).dirichlet(np.ones(1000), size=20).astype(np.float32)
    rows /= rows.sum(axis=1, keepdims=True) * np.float32(1.00002)
    output = Output.from_probabilities(rows, mc_probabilities=np.repeat(rows[:, None], 3, axis=1))
    assert np.abs(output.probabilities.sum(axis=1) - 1).max() < 1e-6
    assert np.abs(output.mc_probabilities.sum(axis=2) - 1).max() < 1e-6
    one = Output.from_probabilities(rows[:1])
    np.testing.assert_array_equal(one.probabilities[0], output.probabilities[0])
