import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.contract.inputs import InputSpec, InvalidRequest
from demur.serve.contract.reading.numbers import NotNumbers, RaggedArray, array_of, read_numbers

GREY = InputSpec(kind="image", channels=1, height=8, width=8)


@given(st.integers(0, 4), st.integers(1, 4), st.integers(1, 3), st.randoms())
def test_lists_become_the_array_that_numpy_makes_of_them(rows, columns, channels, random):
    lists = [[[random.choice((0, 1, 0.25)) for _ in range(channels)] for _ in range(columns)] for _ in range(rows)]
    if rows:
        np.testing.assert_array_equal(array_of(lists), np.asarray(lists))
    else:
        assert array_of(lists).shape == (0,)


@pytest.mark.parametrize(
    ("lists", "error"),
    [
        ([[1, 2], [3]], RaggedArray),
        ([1, [2]], RaggedArray),
        ([[1], 2], RaggedArray),
        ([[[[[[[[[1]]]]]]]]], RaggedArray),  # nine deep
        (["1"], NotNumbers),
        ([None], NotNumbers),
        ([{}], NotNumbers),
        ([[1, "2"]], NotNumbers),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(lists, error):
    with pytest.raises(error):
        array_of(lists)


def test_one_long_text_among_numbers_takes_no_room():
    """NumPy makes room for the longest text at the place of every number: this megabyte would be 400 gigabytes."""
    value = [0.0] * 100_000 + ["x" * 1_000_000]
    with pytest.raises(InvalidRequest, match="only numbers are taken"):
        read_numbers(value, GREY)


@pytest.mark.parametrize(
    "shape", [(1_000_000,), (1_000, 1_000), (8, 125_000), (125_000, 8), (1, 1, 1_000_000), (10, 10, 10, 1_000)]
)
def test_a_million_numbers_of_a_wrong_shape_are_refused_soon(shape):
    value = np.zeros(shape).tolist()
    began = time.process_time()
    with pytest.raises(InvalidRequest, match="the shape is"):
        read_numbers(value, GREY)
    assert time.process_time() - began < 5  # a fraction of a second, on a machine with nothing else to do
