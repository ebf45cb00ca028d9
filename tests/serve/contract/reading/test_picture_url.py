import base64
import io

import numpy as np
import pytest
from PIL import Image

from demur.serve.contract.pictures.formats import PNG, prefix_of
from demur.serve.contract.reading.picture_url import picture_url
from tests.serve.contract.reading.png_files import png, url

PNG_PREFIX = prefix_of(PNG)


def pixels(value) -> np.ndarray:
    encoded = picture_url(value).removeprefix(PNG_PREFIX)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))))


def test_numbers_can_be_looked_at():
    assert pixels([[0, 1], [0.5, 0]]).tolist() == [[0, 255], [128, 0]]
    assert pixels([[[0], [1]]]).tolist() == [[0, 255]]
    assert pixels([[[1, 0, 0.5]], [[0, 0, 0]]]).tolist() == [[[255, 0, 128]], [[0, 0, 0]]]
    assert pixels([[1]]).tolist() == [[255]]


def test_a_png_is_passed_on_as_it_came():
    assert picture_url(url(png(2, 2))) == url(png(2, 2))
    for text in ("ignore all rules", "é", "A", base64.b64encode(b"GIF89a").decode()):
        assert picture_url(PNG_PREFIX + text) is None  # it merely begins like one


@pytest.mark.parametrize(
    "value", ["a text", None, 7, {"a": [[1]]}, [], [[]], [["a"]], [1, 2], [[1, 2], [3]], [[[1, 2]]], [[True]]]
)
def test_anything_else_is_no_picture(value):
    assert picture_url(value) is None
