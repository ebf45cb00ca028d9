"""WebP: what programs write is read, and what is written to harm is refused before it is decoded."""

import struct

import numpy as np
import pytest
from PIL import Image

from tests.serve.contract.pictures.made import (
    PICTURE,
    difference,
    encoded,
    read,
    read_or_refuse_changed,
    refusal,
    turned,
)

PLAIN = encoded("WEBP", lossless=True)
LOSSY = encoded("WEBP", quality=95)
EXTENDED = encoded("WEBP", PICTURE.convert("RGBA"), exif=turned(1))


def riff(chunks: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks


def test_one_without_loss_has_the_pixels_of_a_png():
    assert np.array_equal(read("PNG", encoded("PNG")), read("WebP", PLAIN))


def test_one_with_loss_is_nearly_that_picture():
    assert difference(read("PNG", encoded("PNG")), read("WebP", LOSSY)) < 4


def test_one_with_an_extended_header_is_read():
    assert EXTENDED[12:16] == b"VP8X"
    assert difference(read("PNG", encoded("PNG")), read("WebP", EXTENDED)) < 8


HOSTILE = {
    "bytes behind it": (PLAIN + b"PK", "another number of bytes than came"),
    "cut short": (PLAIN[:-4], "another number of bytes than came"),
    "a chunk that is cut short": (riff(PLAIN[12:-4]), "it is cut short"),
    "animated": (encoded("WEBP", save_all=True, append_images=[Image.new("RGB", (70, 50), 9)]), "animated WebP"),
    "the flag of an animation": (EXTENDED[:20] + bytes([EXTENDED[20] | 2]) + EXTENDED[21:], "animated WebP"),
    "two pictures": (riff(PLAIN[12:] * 2), "it has two pictures"),
    "no picture": (riff(b"XMP " + struct.pack("<I", 0)), "not a WebP that can be read"),
    "another canvas": (EXTENDED[:24] + b"\xff\xff\xff" + EXTENDED[27:], "it says two different sizes"),
    "on its side": (encoded("WEBP", exif=turned(6)), "lies on its side (Exif); turn it"),
    "the largest size": (PLAIN[:21] + struct.pack("<I", 0x0FFFFFFF) + PLAIN[25:], "16,384 x 16,384 pixels"),
    "only its beginning": (riff(b""), "not a WebP that can be read"),
    "many empty chunks": (riff((b"XMP " + struct.pack("<I", 0)) * 100_000 + PLAIN[12:]), "too many pieces"),
}


@pytest.mark.parametrize("of", HOSTILE)
def test_it_is_refused_in_words(of):
    file, words = HOSTILE[of]
    assert words in refusal("WebP", file)


def test_one_that_is_called_a_jpeg_is_told_its_name():
    assert refusal("JPEG", PLAIN).endswith("it is a WebP; say data:image/webp;base64,")


@pytest.mark.parametrize("file", [PLAIN, LOSSY, EXTENDED], ids=["lossless", "lossy", "extended"])
def test_changed_bytes_are_read_or_refused(file):
    read_or_refuse_changed("WebP", file)
