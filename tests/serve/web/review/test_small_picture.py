"""Small pictures as they are drawn for people."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from demur.serve.contract.pictures.formats import PNG, prefix_of
from demur.serve.contract.reading.picture_url import picture_url
from demur.serve.web.review.small_picture import LARGE_SIDE, SMALL, THUMBNAIL_SIDE, small_picture

PNG_PREFIX = prefix_of(PNG)


def url(image):
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return PNG_PREFIX + base64.b64encode(buffer.getvalue()).decode()


def drawn(found):
    return Image.open(io.BytesIO(base64.b64decode(found.removeprefix(PNG_PREFIX))))


@pytest.mark.parametrize(
    ("size", "large", "thumbnail"),
    [
        ((8, 8), (256, 256), (96, 96)),
        ((64, 64), (256, 256), (96, 96)),
        ((64, 16), (256, 64), (96, 24)),
        ((1, 1), (256, 256), (96, 96)),
        ((64, 1), (256, 4), (96, 2)),
        ((3, 64), (12, 256), (4, 96)),
    ],
)
def test_the_longer_side_is_the_same_for_all(size, large, thumbnail):
    found = small_picture(url(Image.new("L", size, 128)))
    assert drawn(found.smooth).size == (found.width, found.height) == large
    assert drawn(found.thumbnail).size == thumbnail
    assert max(large) == LARGE_SIDE
    assert max(thumbnail) == THUMBNAIL_SIDE


@pytest.mark.parametrize("size", [(SMALL + 1, 8), (8, SMALL + 1), (400, 300), (30_000, 1)])
def test_a_larger_picture_is_left_as_it_is(size):
    assert small_picture(url(Image.new("L", size))) is None


MODES = {
    "1": Image.fromarray(np.eye(8, dtype=bool)),
    "L": Image.fromarray(np.eye(8, dtype=np.uint8) * 255),
    "LA": Image.fromarray(np.eye(8, dtype=np.uint8) * 255).convert("LA"),
    "P": Image.fromarray(np.eye(8, dtype=np.uint8) * 255).convert("P"),
    "RGB": Image.fromarray(np.eye(8, dtype=np.uint8) * 255).convert("RGB"),
    "RGBA": Image.fromarray(np.eye(8, dtype=np.uint8) * 255).convert("RGBA"),
    "16 bits": Image.fromarray(np.eye(8, dtype=np.uint16) * 65535),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_kind_of_pixel_is_drawn_smooth(mode):
    found = small_picture(url(MODES[mode]))
    pixels = np.asarray(drawn(found.smooth).convert("L"), dtype=int)
    assert pixels[16, 16] > 240  # the middle of a white pixel on the diagonal
    assert pixels[16, 240] < 15  # of a black one far from it
    assert len(np.unique(pixels)) > 50  # and between them all shades
    assert np.abs(np.diff(pixels, axis=1)).max() < 40  # no edge of a square


def test_what_is_transparent_stays_so():
    image = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    assert drawn(small_picture(url(image)).smooth).getpixel((128, 128))[3] == 0


def test_nested_numbers_are_drawn_too():
    assert small_picture(picture_url([[0.0, 1.0], [1.0, 0.0]])).width == LARGE_SIDE


NOISE = url(Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)))


@pytest.mark.parametrize(
    "broken",
    [
        PNG_PREFIX,
        f"{PNG_PREFIX}not base64!",
        f"{PNG_PREFIX}{base64.b64encode(b'no picture').decode()}",
        NOISE[:80],
        NOISE[:-1],
    ],
)
def test_what_cannot_be_read_is_left_to_the_browser(broken):
    assert small_picture(broken) is None
