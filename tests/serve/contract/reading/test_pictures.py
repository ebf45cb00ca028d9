"""PNGs of every form, broken ones, and such as are far larger than they look."""

import base64
import io
import random
import time
import zlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from demur.serve.contract.inputs import InputLimits, InputSpec, InvalidRequest, TooLarge
from demur.serve.contract.pictures import png as png_format
from demur.serve.contract.pictures.formats import PNG, prefix_of
from demur.serve.contract.reading import pictures
from demur.serve.contract.reading.inputs import read_input, read_inputs
from demur.serve.contract.reading.pictures import Picture, measured
from tests.serve.contract.reading.png_files import FLOOD, HIDDEN, SIGNATURE, chunk, header, png, url

PNG_PREFIX = prefix_of(PNG)

GREY = InputSpec(kind="image", channels=1, height=8, width=8)
COLOUR = InputSpec(kind="image", channels=3, height=8, width=8)
LIMITS = InputLimits(text_characters=10, image_pixels=4096 * 4096)
FORMS = [
    (1, 0),
    (2, 0),
    (4, 0),
    (8, 0),
    (16, 0),
    (8, 2),
    (16, 2),
    (1, 3),
    (2, 3),
    (4, 3),
    (8, 3),
    (8, 4),
    (16, 4),
    (8, 6),
    (16, 6),
]
"""Every depth with every colour type that there is."""


def packed(kilobytes: int) -> bytes:
    """So much of nothing, which takes a thousandth of it."""
    return zlib.compress(bytes(kilobytes * 1024), 9)


def rows_of(width: int, height: int, depth: int, channels: int, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    return b"".join(b"\0" + rng.bytes((width * depth * channels + 7) // 8) for _ in range(height))


@pytest.mark.parametrize("spec", [GREY, COLOUR])
@pytest.mark.parametrize(("depth", "colour"), FORMS)
def test_every_form_has_the_pixels_that_pillow_gives_it(depth, colour, spec):
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    file = png(11, 9, depth=depth, colour=colour, rows=rows_of(11, 9, depth, channels, seed=depth * 10 + colour))
    image = Image.open(io.BytesIO(file))
    if image.mode == "I;16":  # of which Pillow makes white wherever it is not nearly black
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    wanted = np.asarray(image.convert("L" if spec is GREY else "RGB"))
    pixels = read_input(url(file), spec, LIMITS)
    assert pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels, wanted[np.newaxis] if spec is GREY else np.moveaxis(wanted, -1, 0))


@pytest.mark.parametrize(("depth", "colour"), FORMS)
@pytest.mark.parametrize("interlaced", [False, True])
def test_every_form_can_be_shrunk(depth, colour, interlaced):
    pixels = read_input(url(png(100, 50, depth=depth, colour=colour, interlaced=interlaced)), GREY, LIMITS)
    assert pixels.shape == (1, 24, 48)  # three times eight, in its proportion
    assert pixels.max() <= 1  # the first colour of the palette is nearly black


def test_sixteen_bits_of_grey_keep_their_shades():
    shades = np.array([[0, 255, 256, 0x8000, 0xFFFF]], dtype=">u2")
    file = png(5, 1, depth=16, rows=b"\0" + shades.tobytes())
    assert read_input(url(file), GREY, LIMITS).tolist() == [[[0, 0, 1, 128, 255]]]
    assert read_input(url(file), COLOUR, LIMITS)[1].tolist() == [[0, 0, 1, 128, 255]]


def test_what_is_transparent_has_the_colour_that_it_has():
    """Without a warning, which is an error here: Pillow has one for a palette with several kinds of transparency."""
    rows = b"\0" + bytes([1, 2])
    for transparency in (b"\x80\x40\x20", b"\xff\x00"):
        file = png(2, 1, depth=8, colour=3, before=chunk(b"tRNS", transparency), rows=rows)
        assert read_input(url(file), COLOUR, LIMITS)[:, 0, 0].tolist() == [3, 4, 5]


def test_only_what_is_far_larger_than_the_model_is_shrunk():
    spec = InputSpec(kind="image", channels=3, height=10, width=20)
    for size, left in (
        ((20, 10), (20, 10)),
        ((60, 30), (60, 30)),
        ((61, 30), (61, 30)),
        ((62, 31), (60, 30)),  # from here on, to three times its size
        ((400, 200), (60, 30)),
        ((4000, 3000), (60, 45)),
        ((1000, 40), (750, 30)),  # it keeps its proportion, because some models cut out its middle
        ((40, 1000), (40, 1000)),
    ):
        picture = Picture(url(png(*size)))
        assert picture.pixels == size[0] * size[1]
        assert picture.pixels_left(spec) == left[0] * left[1]
        assert picture.decoded(spec).shape == (3, *left[::-1])


@pytest.mark.parametrize("depth", [8, 16])
def test_what_is_shrunk_is_averaged(depth):
    """A finely chequered picture is grey from afar, and not black or white by chance."""
    board = (np.indices((480, 480)).sum(axis=0) % 2).astype(">u2" if depth == 16 else "u1") * (2**depth - 1)
    file = png(480, 480, depth=depth, rows=b"".join(b"\0" + row.tobytes() for row in board))
    np.testing.assert_allclose(read_input(url(file), GREY, LIMITS), 127.5, atol=1)


def test_the_decoder_says_how_large_a_picture_is():
    """Chunks may stand before the header; a second header does not take the place of the first."""
    with pytest.raises(TooLarge, match="at most 10 are taken"):
        read_input(HIDDEN, GREY, InputLimits(text_characters=1, image_pixels=10))
    twice = header(1, 1, depth=8) + header(4096, 4097, depth=8)
    with pytest.raises(InvalidRequest, match="can be read"):
        read_input(url(SIGNATURE + twice + chunk(b"IDAT", packed(1)) + chunk(b"IEND", b"")), GREY, LIMITS)


def test_all_pictures_of_a_request_are_measured_before_one_is_decoded():
    broken = url(png(4000, 4000, rows=b""))
    found = measured([broken, HIDDEN, url(png(8, 8))], GREY, LIMITS)
    assert [type(one) for one in found] == [Picture, TooLarge, Picture]  # the small one still has room
    with pytest.raises(InvalidRequest, match="can be read"):
        found[0].decoded(GREY)


def test_a_thousand_times_the_same_picture_is_a_thousand_pictures():
    results = read_inputs([FLOOD] * 1000, GREY, LIMITS)
    assert [type(one) for one in results[:2]] == [np.ndarray, TooLarge]
    assert sum(isinstance(one, TooLarge) for one in results) == 999


TEXTS = {
    "zTXt": chunk(b"zTXt", b"k\0\0" + packed(1000)),
    "iTXt": chunk(b"iTXt", b"k\0\1\0\0\0" + packed(1000)),
    "iCCP": chunk(b"iCCP", b"k\0\0" + packed(1000)),
    "iCCP of which nothing is right": chunk(b"iCCP", b"k\0\0" + packed(5000)),
    "eXIf": chunk(b"eXIf", bytes(1000)),
    "an animation": chunk(b"acTL", b"\0\0\0\2\0\0\0\0") + chunk(b"fcTL", bytes(4) + b"\0\0\0\1" * 2 + bytes(18)),
    "its type is no type": chunk(b"a\0\0b", b""),
}


@pytest.mark.parametrize("text", TEXTS)
def test_what_makes_no_pixels_is_not_looked_at(text):
    plain = read_input(url(png(8, 8)), GREY, LIMITS)
    for where in ("first", "before", "after"):
        file = png(8, 8, **{where: TEXTS[text] * 200})
        began = time.process_time()
        np.testing.assert_array_equal(read_input(url(file), GREY, LIMITS), plain)
        assert time.process_time() - began < 0.1 * 5  # unpacking it takes 0.6 s on a quick machine
    beside = png(8, 8, before=chunk(b"IDAT", b""))
    np.testing.assert_array_equal(read_input(url(beside), GREY, LIMITS), plain)


@pytest.mark.parametrize("kind", [b"IDAT", b"tEXt"])
def test_very_many_pieces_are_refused_before_they_are_looked_at(kind):
    """A flood of such files for one model made other models take four times as long."""
    file = url(png(8, 8, before=chunk(kind, b"") * 800_000))
    began = time.process_time()
    with pytest.raises(InvalidRequest, match="cut into too many pieces"):
        read_input(file, GREY, LIMITS)
    assert time.process_time() - began < 0.15  # 0.25 and more, if each were looked at


def test_a_picture_in_small_pieces_is_read():
    """As programs write it that have little memory: 1 KB at a time."""
    noise = random.Random(0).randbytes(201 * 200)
    image = zlib.compress(b"".join(b"\0" + noise[at : at + 200] for at in range(0, 200 * 200, 200)))
    pieces = b"".join(chunk(b"IDAT", image[at : at + 1024]) for at in range(0, len(image), 1024))
    file = SIGNATURE + header(200, 200, depth=8) + pieces + chunk(b"IEND", b"")
    whole = png(200, 200, depth=8, rows=zlib.decompress(image))
    np.testing.assert_array_equal(read_input(url(file), GREY, LIMITS), read_input(url(whole), GREY, LIMITS))


def test_a_file_is_no_larger_than_its_pixels_and_a_megabyte():
    """What makes no pixels was stored with the record: fourteen megabytes for a picture of 8 x 8."""
    profile = chunk(b"iCCP", bytes(900_000))
    np.testing.assert_array_equal(read_input(url(png(8, 8, before=profile)), GREY, LIMITS), np.zeros((1, 8, 8)))
    with pytest.raises(TooLarge, match=r"8 x 8 pixels in a file of 1,800,\d+ bytes; at most 1,048,576 are taken"):
        read_input(url(png(8, 8, before=2 * profile)), GREY, LIMITS)


@pytest.mark.parametrize(("width", "height"), [(1024, 1024), (1, 32), (32, 1)])
def test_no_file_of_pixels_alone_is_too_large(width, height, monkeypatch):
    """Not even where nothing can be packed."""
    monkeypatch.setattr(pictures, "MOST_BESIDE_PIXELS", 300)
    noise = random.Random(0).randbytes(8 * width * height)
    rows = b"".join(b"\0" + noise[8 * width * y : 8 * width * (y + 1)] for y in range(height))
    assert read_input(url(png(width, height, depth=16, colour=6, rows=rows)), COLOUR, LIMITS).ndim == 3


@pytest.mark.parametrize("kind", [b"PLTE", b"IHDR", b"IEND", b"ABCD"])
def test_no_decoder_is_given_the_same_piece_again_and_again(kind, monkeypatch):
    """Each costs two microseconds: ten megabytes of them kept everybody waiting for two seconds."""
    monkeypatch.setattr(png_format, "PngImageFile", lambda file: pytest.fail(f"it got {len(file.getvalue())} bytes"))
    for file in (png(8, 8, first=2 * chunk(kind, b"")), png(8, 8, before=2 * chunk(kind, b""))):
        with pytest.raises(InvalidRequest, match="can be read"):
            read_input(url(file), GREY, LIMITS)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (url(png(0, 5)), "is not a PNG that can be read"),
        (url(png(5, 0)), "is not a PNG that can be read"),
        (url(png(1, 33)), "1 x 33 pixels; one side may be at most 32 times as long as the other"),
        (url(png(5000, 1)), "5,000 x 1 pixels; one side may be at most 32 times"),
        (url(png(2**31, 1, rows=b"")), "at most 16,777,216 are taken"),
        (url(png(2**32 - 1, 2**32 - 1, rows=b"")), "at most 16,777,216 are taken"),
        (url(png(8, 8, rows=b"")), "can be read"),
        (url(png(8, 8, depth=3)), "can be read"),
        (url(png(8, 8, colour=3, depth=8).replace(b"PLTE", b"PLTF")), "can be read"),
        (url(png(8, 8)[:-30]), "can be read"),
        (url(SIGNATURE), "can be read"),
        (url(SIGNATURE + header(8, 8)), "can be read"),
        (url(png(8, 8).replace(SIGNATURE, b"GIF89a\0\0")), "can be read"),
        (PNG_PREFIX, "can be read"),
        (PNG_PREFIX + "=", "not valid base64"),
        (PNG_PREFIX + "AAA", "not valid base64"),
        (url(png(8, 8)) + "\n", "not valid base64"),
        (url(png(8, 8))[:100] + "\n" + url(png(8, 8))[100:], "without line breaks"),
        (PNG_PREFIX + base64.urlsafe_b64encode(SIGNATURE + b"\xff" * 9).decode(), "letters, digits, [+] and /"),
        (PNG_PREFIX + base64.b64encode(png(8, 8)).decode() * 2, "not valid base64"),
        (PNG_PREFIX + "é" * 4, "not valid base64"),
        (PNG_PREFIX + "A" * (2**18 - 1) + "=" + "A" * 4, "not valid base64"),  # at the seam of two pieces
        (PNG_PREFIX.upper(), "must be a URL that starts with"),
        (PNG_PREFIX.replace("png", "jpg"), "must be a URL that starts with"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(value, why):
    with pytest.raises(InvalidRequest, match=why):
        read_input(value, GREY, LIMITS)


def test_a_header_whose_checksum_is_wrong_is_refused():
    file = bytearray(png(8, 8))
    file[20] ^= 1
    with pytest.raises(InvalidRequest, match="can be read"):
        read_input(url(bytes(file)), GREY, LIMITS)


@given(st.randoms(use_true_random=False), st.sampled_from(FORMS), st.booleans(), st.integers(1, 12))
def test_a_damaged_file_is_a_picture_or_is_refused(rng: random.Random, form, interlaced, changes):
    depth, colour = form
    file = bytearray(png(9, 7, depth=depth, colour=colour, interlaced=interlaced, before=TEXTS["zTXt"]))
    for _ in range(changes):
        at = rng.randrange(len(file))
        match rng.randrange(3):
            case 0:
                file[at] = rng.randrange(256)
            case 1:
                del file[at : at + rng.randrange(1, 9)]
            case _:
                file[at:at] = rng.randbytes(rng.randrange(1, 9))
    with_sums = url(mended(bytes(file)) if rng.random() < 0.5 else bytes(file))
    (result,) = read_inputs([with_sums], GREY, InputLimits(text_characters=1, image_pixels=100_000))
    assert isinstance(result, InvalidRequest) or result.size <= 100_000


def mended(file: bytes) -> bytes:
    """The file with the right checksum after each chunk, so that damage gets further than that."""
    at, parts = 8, [file[:8]]
    while at + 12 <= len(file):
        length = min(int.from_bytes(file[at : at + 4], "big"), len(file) - at - 12)
        parts.append(chunk(file[at + 4 : at + 8], file[at + 8 : at + 8 + length]))
        at += 12 + length
    return b"".join(parts)


@given(st.binary(max_size=60))
@example(b"\0" * 60)
def test_anything_after_the_signature_is_a_picture_or_is_refused(content):
    (result,) = read_inputs([url(SIGNATURE + content)], GREY, LIMITS)
    assert isinstance(result, InvalidRequest)


@pytest.mark.parametrize(
    ("side", "pixels"),
    [
        (1, 4_194_304),
        (8, 4_194_304),
        (128, 4_194_304),
        (224, 12_845_056),  # 4,032 x 3,024, a photo of a phone, is 12,192,768
        (256, 16_777_216),
        (1024, 16_777_216),
        (4096, 16_777_216),
        (5000, 25_000_000),  # what has the model's own size is always taken
    ],
)
def test_how_much_is_taken_follows_the_size_of_the_model(side, pixels):
    spec = InputSpec(kind="image", channels=1, height=side, width=side)
    assert InputLimits(text_characters=1).pixels_of(spec) == pixels
    assert InputLimits(text_characters=1, image_pixels=7).pixels_of(spec) == 7


def test_more_is_taken_than_pillow_takes_by_itself_where_it_is_configured(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    assert read_input(url(png(100, 100)), GREY, LIMITS).shape == (1, 24, 24)
