"""JPEG: what cameras and programs write is read, and what is written to harm is refused before it is decoded."""

import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageOps

from demur.serve.contract.pictures.jpeg import JpegFormat
from tests.serve.contract.pictures.made import (
    PICTURE,
    difference,
    encoded,
    read,
    read_or_refuse_changed,
    refusal,
    turned,
)

PLAIN = encoded("JPEG")
FRAME, SCAN = PLAIN.index(b"\xff\xc0"), PLAIN.index(b"\xff\xda")
FRAME_END = FRAME + 2 + struct.unpack_from(">H", PLAIN, FRAME + 2)[0]
END = b"\xff\xd9"


@pytest.mark.parametrize("settings", [{}, {"progressive": True}, {"optimize": True}, {"subsampling": 2}])
def test_it_is_the_same_picture_as_a_png(settings):
    assert difference(read("PNG", encoded("PNG")), read("JPEG", encoded("JPEG", quality=95, **settings))) < 4


def test_a_grey_one_is_read():
    grey = PICTURE.convert("L")
    assert difference(read("PNG", encoded("PNG", grey)), read("JPEG", encoded("JPEG", grey, quality=95))) < 2


@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_is_turned_as_the_camera_says(orientation):
    file = encoded("JPEG", exif=turned(orientation), quality=95)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file))))
    assert np.array_equal(read("JPEG", file), np.moveaxis(upright, -1, 0))


HOSTILE = {
    "cut short": (PLAIN[:-40], "it is cut short"),
    "two frames": (PLAIN[:FRAME_END] + PLAIN[FRAME:], "it has two frames"),
    "ten thousand scans": (PLAIN[:-2] + PLAIN[SCAN:-2] * 10_000 + END, "scans"),
    "the largest size": (PLAIN[: FRAME + 5] + b"\xff" * 4 + PLAIN[FRAME + 9 :], "65,535 x 65,535 pixels"),
    "no width": (PLAIN[: FRAME + 7] + b"\0\0" + PLAIN[FRAME + 9 :], "not a JPEG that can be read"),
    "a page behind it": (PLAIN + b"<html>", "6 bytes stand after its end"),
    "the colours of print": (encoded("JPEG", PICTURE.convert("CMYK")), "(CMYK); save it in RGB"),
    "12 bits": (PLAIN[: FRAME + 4] + b"\x0c" + PLAIN[FRAME + 5 :], "12 bits a colour"),
    "arithmetic codes": (PLAIN[: FRAME + 1] + b"\xc9" + PLAIN[FRAME + 2 :], "only baseline and progressive"),
    "without loss": (PLAIN[: FRAME + 1] + b"\xc3" + PLAIN[FRAME + 2 :], "only baseline and progressive"),
    "a scan before the frame": (PLAIN[:FRAME] + PLAIN[SCAN:], "not a JPEG that can be read"),
    "no scan": (PLAIN[:SCAN] + END, "not a JPEG that can be read"),
    "only its beginning": (PLAIN[:4], "cut short"),
    "many empty comments": (PLAIN[:2] + b"\xff\xfe\0\2" * 100_000 + PLAIN[2:], "too many pieces"),
    "a megabyte of padding": (PLAIN[:2] + b"\xff" * 2**20 + PLAIN[2:], "not a JPEG that can be read"),
}


@pytest.mark.parametrize("of", HOSTILE)
def test_it_is_refused_in_words(of):
    file, words = HOSTILE[of]
    assert words in refusal("JPEG", file)


def test_one_that_is_called_a_png_is_told_its_name():
    assert refusal("PNG", PLAIN).endswith("it is a JPEG; say data:image/jpeg;base64,")


def test_what_a_camera_tells_beside_the_pixels_never_meets_the_decoder():
    exif = turned(1)
    exif[0x110] = "SecretCam"
    file = encoded("JPEG", exif=exif, comment=b"a comment", icc_profile=b"a profile" * 10)
    assert b"SecretCam" in file
    with JpegFormat().read(file).opened() as image:
        assert not {"exif", "icc_profile", "comment"} & set(image.info)
        assert not dict(image.getexif())


@pytest.mark.parametrize("settings", [{}, {"progressive": True}], ids=["baseline", "progressive"])
def test_changed_bytes_are_read_or_refused(settings):
    read_or_refuse_changed("JPEG", encoded("JPEG", **settings))
