"""The file that is stored of a picture: its pixels, upright, and nothing that it says beside them."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from demur.serve.contract.pictures.formats import FORMATS, url_of
from demur.serve.contract.reading.pictures import Picture
from tests.serve.contract.pictures.made import (
    PICTURE,
    SECRET,
    difference,
    encoded,
    read,
    read_or_refuse_changed,
    refusal,
    telling,
    turned,
)
from tests.serve.contract.reading.png_files import chunk, png

BY_NAME = {one.name.upper(): one for one in FORMATS}
PLAIN = encoded("PNG")


def kept_of(name, file):
    return BY_NAME[name].read(file).kept


def pixels_of(name, file):
    return read(BY_NAME[name].name, file)


@pytest.mark.parametrize("name", BY_NAME)
def test_it_says_nothing_of_place_and_time(name):
    file = telling(name)
    kept = kept_of(name, file)
    assert SECRET not in kept
    assert b"Exif" not in kept
    assert b"eXIf" not in kept
    assert np.array_equal(pixels_of(name, kept), pixels_of(name, file))


@pytest.mark.parametrize("name", BY_NAME)
def test_what_is_made_of_it_again_is_the_same_file(name):
    kept = kept_of(name, telling(name))
    assert kept_of(name, kept) == kept
    url = url_of(kept, BY_NAME[name])
    assert Picture(url).kept_url is url


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_jpeg_is_shown_as_the_model_saw_it(orientation):
    file = telling("JPEG", orientation)
    kept = kept_of("JPEG", file)
    assert SECRET not in kept
    image = Image.open(io.BytesIO(kept))
    assert dict(image.getexif()) == ({} if orientation == 1 else {0x112: orientation})
    shown = np.moveaxis(np.asarray(ImageOps.exif_transpose(image)), -1, 0)
    assert np.array_equal(shown, pixels_of("JPEG", kept))
    assert np.array_equal(shown, pixels_of("JPEG", file))


@pytest.mark.parametrize("mode", ["L", "1", "P", "I;16", "RGBA", "LA"])
def test_a_png_of_any_colours_can_be_read_by_others(mode):
    """Its parts have the checksums that a strict reader looks at."""
    shades = np.arange(350, dtype=np.uint16).reshape(50, 7) * 180
    image = Image.fromarray(shades) if mode == "I;16" else PICTURE.convert(mode)
    file = encoded("PNG", image)
    kept = kept_of("PNG", file)
    with Image.open(io.BytesIO(kept)) as again:
        again.verify()
    with Image.open(io.BytesIO(kept)) as again:
        assert np.array_equal(np.asarray(again), np.asarray(image))


@pytest.mark.parametrize("name", ["PNG", "WEBP"])
def test_where_few_programs_turn_a_picture_one_on_its_side_is_refused(name):
    assert refusal(BY_NAME[name].name, encoded(name, exif=turned(6))).endswith("turn it and save it upright")
    assert pixels_of(name, encoded(name, exif=turned(1))) is not None


def test_bytes_behind_the_end_are_refused_in_every_format():
    for name in ("PNG", "JPEG"):
        assert "14 bytes stand after its end; save it again" in refusal(name, encoded(name) + b"PK\3\4 and a zip")
    assert "another number of bytes than came" in refusal("WebP", encoded("WEBP") + b"PK\3\4 and a zip")


HOSTILE = {
    "no end": (PLAIN[:-12], "it is cut short"),
    "half a checksum": (PLAIN[:-2], "it is cut short"),
    "an end before the pixels": (png(8, 8, before=chunk(b"IEND", b"")), "bytes stand after its end"),
    "no pixels": (PLAIN[: PLAIN.index(b"IDAT") - 4] + chunk(b"IEND", b""), "not a PNG that can be read"),
    "a palette behind the pixels": (png(8, 8, after=chunk(b"PLTE", bytes(3))), "not a PNG that can be read"),
    "a size behind the pixels": (png(8, 8, after=png(8, 8)[8:33]), "not a PNG that can be read"),
    "more than there is": (PLAIN[:-12] + b"\xff\xff\xff\xfftEXt", "it is cut short"),
    "only its beginning": (PLAIN[:8], "it is cut short"),
}


@pytest.mark.parametrize("of", HOSTILE)
def test_a_png_is_refused_in_words(of):
    file, words = HOSTILE[of]
    assert words in refusal("PNG", file)


def test_changed_bytes_of_a_png_are_read_or_refused():
    read_or_refuse_changed("PNG", telling("PNG"))


@pytest.mark.parametrize("name", BY_NAME)
def test_of_a_changed_file_that_is_taken_the_stored_one_has_its_pixels(name):
    """The stored file is read as the one was that came, whatever is wrong with it."""
    random, taken, original = np.random.default_rng(2), 0, telling(name)
    for _ in range(200):
        changed = bytearray(original)
        changed[random.integers(2, len(original))] = random.integers(256)
        try:
            pixels = pixels_of(name, bytes(changed))
        except ValueError:
            continue
        taken += 1
        kept = kept_of(name, bytes(changed))
        assert difference(pixels_of(name, kept), pixels) == 0
        assert kept_of(name, kept) == kept
    assert taken > 3
