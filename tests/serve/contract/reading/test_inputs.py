import base64
import io
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from demur.serve.contract.inputs import InputLimits, InputSpec, InvalidRequest, TooLarge
from demur.serve.contract.pictures.formats import PNG, prefix_of
from demur.serve.contract.reading.inputs import read_input, read_inputs

PNG_PREFIX = prefix_of(PNG)

LIMITS = InputLimits(text_characters=1000, image_pixels=10_000)
GREY = InputSpec(kind="image", channels=1, height=2, width=3)
COLOUR = InputSpec(kind="image", channels=3, height=2, width=2)
TEXT = InputSpec(kind="text")


def png(array):
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(array, dtype=np.uint8)).save(buffer, "PNG")
    return PNG_PREFIX + base64.b64encode(buffer.getvalue()).decode()


def test_numbers_become_pixels():
    pixels = read_input([[0, 0.5, 1], [1, 0.25, 0]], GREY, LIMITS)
    assert pixels.dtype == np.float32
    np.testing.assert_array_equal(pixels, [[[0, 0.5, 1], [1, 0.25, 0]]])


def test_colours_come_last_in_a_request_and_first_in_a_model():
    pixels = read_input([[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [1, 1, 1]]], COLOUR, LIMITS)
    np.testing.assert_array_equal(pixels[0], [[1, 0], [0, 1]])  # the red channel


def test_a_png_is_read_whatever_its_size_and_mode():
    assert read_input(png([[0, 255, 51]]), GREY, LIMITS).tolist() == [[[0, 255, 51]]]
    assert read_input(png(np.zeros((4, 5, 4))), COLOUR, LIMITS).shape == (3, 4, 5)


@pytest.mark.parametrize(
    ("value", "spec", "why"),
    [
        ([[0.1, 0.2], [0.3, 0.4]], GREY, "the shape is 2 x 2; this model takes 2 x 3"),
        ([[0.1, 0.2, 0.3], [0.3, 0.4]], GREY, "the rows differ in length"),
        ([[0.1, 0.2, "0.3"], [0.3, 0.4, 0.5]], GREY, "only numbers"),
        ([[0.1, 0.2, None], [0.3, 0.4, 0.5]], GREY, "only numbers"),
        ([[True, False, True], [True, True, True]], GREY, "only numbers"),
        ([[0, 1, 2**70], [0, 0, 0]], GREY, "only numbers"),
        ([[0.1, float("nan"), 0.3], [0.3, 0.4, 0.5]], GREY, "NaN or infinite"),
        ([[0.1, float("inf"), 0.3], [0.3, 0.4, 0.5]], GREY, "NaN or infinite"),
        ([[0, 16, 255], [0, 0, 0]], GREY, "reach from 0 to 255; scale them first"),
        ([], GREY, "the shape is 0"),
        (0.5, GREY, "this model takes an image"),
        ({"pixels": []}, GREY, "this model takes an image"),
        (None, GREY, "this model takes an image"),
        ("a text", GREY, "must be a URL that starts with data:image/png;base64,"),
        (PNG_PREFIX + "not base64!", GREY, "not valid base64"),
        (PNG_PREFIX + base64.b64encode(b"not a png").decode(), GREY, "is not a PNG"),
        (PNG_PREFIX + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 40).decode(), GREY, "is not a PNG"),
        ("", TEXT, "the text is empty"),
        (" \n\t", TEXT, "the text is empty"),
        (["a"], TEXT, "takes a text, not a list"),
        (7, TEXT, "takes a text, not a number"),
        (None, TEXT, "takes a text, not null"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(value, spec, why):
    with pytest.raises(InvalidRequest, match=why):
        read_input(value, spec, LIMITS)


@pytest.mark.parametrize(
    ("value", "spec", "why"),
    [
        ("a" * 1001, TEXT, "1,001 characters; at most 1,000"),
        (png(np.zeros((101, 100))), GREY, "100 x 101 pixels; at most 10,000"),
    ],
)
def test_what_is_too_large_is_refused_in_words(value, spec, why):
    with pytest.raises(TooLarge, match=why):
        read_input(value, spec, LIMITS)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.slow
@given(anything, st.sampled_from([GREY, COLOUR, TEXT]))
def test_nothing_else_ever_comes_out(value, spec):
    try:
        read = read_input(value, spec, LIMITS)
    except InvalidRequest:
        return
    if spec is TEXT:
        assert read.strip()
    else:
        assert read.shape == (spec.channels, spec.height, spec.width)
        assert np.isfinite(read).all()


def test_the_pictures_of_a_batch_are_counted_together():
    limits = InputLimits(text_characters=10, image_pixels=1_000_000)
    first, second, third = read_inputs([png(np.zeros((600, 600)))] * 3, GREY, limits)
    assert first.shape == second.shape
    assert isinstance(third, TooLarge)


@pytest.mark.parametrize("nested", [False, True])
def test_texts_among_numbers_take_no_room(nested):
    """Of these, an array of texts would take 800 MB, and of a body of 16 MB more than a machine has."""
    values = ["x" * 10_000, *["a"] * 20_000]
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="only numbers are taken, 2 x 3 of them"):
            read_input([[values]] if nested else values, GREY, LIMITS)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
