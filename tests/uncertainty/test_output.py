import numpy as np
import pytest

from uncertainty.checks import InvalidInput
from uncertainty.output import Output


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
