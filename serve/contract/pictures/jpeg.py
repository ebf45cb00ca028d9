"""JPEG: segments that begin with a marker, and scans of packed pixels behind some of them.

What reaches the decoder, and what is stored, is a new file of the segments that make pixels. Profiles, previews,
comments and what cameras say of place and time stay behind; of the latter only the orientation is read, here and not by
a library. The stored file names it again, so that browsers show the picture as the model saw it.
"""

import io
import struct
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from PIL.JpegImagePlugin import JpegImageFile

from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.pictures.orientation import TURNS, UPRIGHT, exif_of, orientation_of
from demur.serve.contract.pictures.picture_file import PictureFile, Pieces, cannot_be_read

NAME = "JPEG"
SIGNATURE = b"\xff\xd8\xff"

START, END = b"\xff\xd8", b"\xff\xd9"
TABLES = {0xC4, 0xDB, 0xDD}
"""Huffman tables, quantization tables, the interval of restarts."""

FRAMES = {0xC0, 0xC1, 0xC2}
"""Baseline, extended and progressive, with Huffman codes."""

OTHER_FRAMES = {0xC3, *range(0xC5, 0xD0)} - {0xC4, 0xC8}
"""Without loss, of several layers, or with arithmetic codes."""

SCAN, END_OF_IMAGE, COMMENT = 0xDA, 0xD9, 0xFE
APP0, APP1, APP14, APP15 = 0xE0, 0xE1, 0xEE, 0xEF

JFIF = bytes.fromhex("ffe00010") + b"JFIF\0" + bytes.fromhex("010100000100010000")
"""Says that three components are brightness and two differences of colour."""

ADOBE = bytes.fromhex("ffee000e") + b"Adobe" + bytes.fromhex("006400000000")
"""Says by the byte behind it whether three components are that (1), or red, green and blue (0)."""

EXIF = bytes.fromhex("ffe10022") + b"Exif\0\0"
"""Behind it stands an orientation, in 26 bytes."""

MOST_SCANS = 32
"""Programs write up to about ten. Each goes over the whole picture again, and may have a few bytes."""

MOST_PADDING = 64
"""Bytes of 255 that may stand before a marker, and count for nothing."""

SEARCHED_AT_ONCE = 2**16
"""Bytes of a scan."""

IN_SCAN = np.zeros(256, dtype=bool)
IN_SCAN[[0, *range(0xD0, 0xD8)]] = True
"""What may stand behind 255 within a scan: 0, where the 255 is part of the pixels, and restarts."""


class JpegFormat:
    """The format of the Joint Photographic Experts Group, in 8 bits, grey or with three colours."""

    name = NAME
    media_type = "image/jpeg"

    def begins(self, file: bytes) -> bool:
        """Whether a file begins as a JPEG does."""
        return file.startswith(SIGNATURE)

    def read(self, file: bytes) -> PictureFile:
        """Return its size and what makes it upright, and its pixels, not decoded yet."""
        segments = _segments(file)
        if segments.frame is None or not segments.scans:
            raise cannot_be_read(NAME)
        width, height = segments.frame
        turn, pixels = TURNS.get(segments.orientation or UPRIGHT), segments.pixel_data()
        return PictureFile(
            width=width,
            height=height,
            opened=partial(_opened, pixels),
            kept=pixels if turn is None else segments.pixel_data(with_orientation=True),
            turn=turn,
        )


def _opened(pixels: bytes) -> JpegImageFile:
    return JpegImageFile(io.BytesIO(pixels))


@dataclass
class Segments:
    """What is kept of a file."""

    kept: list[bytes] = field(default_factory=list)
    """Tables, the frame, and scans, each with its marker."""

    frame: tuple[int, int] | None = None
    """Width and height."""

    scans: int = 0
    is_jfif: bool = False
    adobe_transform: int | None = None
    orientation: int | None = None

    def begin_frame(self, marker: int, segment: bytes) -> None:
        """Note the size. Raises `InvalidRequest` for a second frame, and for one that is not taken."""
        if marker not in FRAMES:
            raise cannot_be_read(NAME, "only baseline and progressive ones are taken; save it as one of these")
        if self.frame is not None:
            raise cannot_be_read(NAME, "it has two frames")
        self.frame = _size(segment)

    def count_scan(self) -> None:
        """Count one more. Raises `InvalidRequest` for one too many, and for one before the frame."""
        if self.frame is None:
            raise cannot_be_read(NAME)
        if self.scans == MOST_SCANS:
            raise cannot_be_read(NAME, f"it has more than {MOST_SCANS} scans")
        self.scans += 1

    def pixel_data(self, *, with_orientation: bool = False) -> bytes:
        """Return a file of what makes pixels, and of what turns them upright if that is wanted."""
        head = [START]
        if self.is_jfif:
            head.append(JFIF)
        if self.adobe_transform is not None:
            head.append(ADOBE + bytes([self.adobe_transform]))
        if with_orientation and self.orientation is not None:
            head.append(EXIF + exif_of(self.orientation))
        return b"".join([*head, *self.kept, END])


def _segments(file: bytes) -> Segments:
    """Read the file from marker to marker. Raises `InvalidRequest`."""
    found, pieces, at = Segments(), Pieces(NAME, file), len(START)
    while True:
        pieces.count()
        marker, at = _marker(file, at)
        if marker == END_OF_IMAGE:
            if at != len(file):
                raise cannot_be_read(NAME, f"{len(file) - at:,} bytes stand after its end; save it again without them")
            return found
        start, at = at, at + _length(file, at)
        segment = file[start:at]
        if marker in FRAMES or marker in OTHER_FRAMES:
            found.begin_frame(marker, segment)
        elif marker == SCAN:
            found.count_scan()
            at = _end_of_scan(file, at)
        elif APP0 <= marker <= APP15 or marker == COMMENT:
            if not found.scans:
                _note(found, marker, segment[2:])
            continue
        elif marker not in TABLES:
            raise cannot_be_read(NAME)
        found.kept += [bytes([0xFF, marker]), file[start:at]]


def _marker(file: bytes, at: int) -> tuple[int, int]:
    """Return the marker that stands here, behind any number of 255s, and where it ends."""
    padded = file[at : at + MOST_PADDING]
    marker = padded.lstrip(b"\xff")
    if not marker or marker == padded:
        raise cannot_be_read(NAME, "" if padded and marker else "it is cut short")
    return marker[0], at + len(padded) - len(marker) + 1


def _length(file: bytes, at: int) -> int:
    """Return how many bytes a segment has, with the two that say so."""
    length = int.from_bytes(file[at : at + 2], "big")
    if length < 2 or at + length > len(file):
        raise cannot_be_read(NAME, "it is cut short" if at + max(2, length) > len(file) else "")
    return length


def _size(frame: bytes) -> tuple[int, int]:
    """Return width and height. Raises `InvalidRequest` for what is neither grey nor three colours of 8 bits."""
    if len(frame) < 8 or len(frame) != 8 + 3 * frame[7]:
        raise cannot_be_read(NAME)
    bits, height, width, components = struct.unpack_from(">BHHB", frame, 2)
    if bits != 8:
        raise InvalidRequest(f"input: the image is a JPEG of {bits} bits a colour; save it with 8")
    if components == 4:
        raise InvalidRequest("input: the image is a JPEG in the four colours of print (CMYK); save it in RGB")
    if components not in (1, 3) or not width or not height:
        raise cannot_be_read(NAME)
    return width, height


def _end_of_scan(file: bytes, at: int) -> int:
    """Return where the next marker begins. Numpy looks for it: in Python, a megabyte of 255s would take long."""
    while at + 1 < len(file):
        piece = np.frombuffer(file, np.uint8, min(SEARCHED_AT_ONCE, len(file) - at), at)
        marks = np.flatnonzero(piece[:-1] == 0xFF)
        ends = marks[~IN_SCAN[piece[marks + 1]]]
        if ends.size:
            return at + int(ends[0])
        at += len(piece) - 1
    raise cannot_be_read(NAME, "it is cut short")


def _note(found: Segments, marker: int, content: bytes) -> None:
    """Keep what a segment beside the pixels says of colours and orientation."""
    if marker == APP0 and content.startswith(b"JFIF\0"):
        found.is_jfif = True
    elif marker == APP14 and content.startswith(b"Adobe") and len(content) >= 12:
        found.adobe_transform = content[11]
    elif marker == APP1 and content.startswith(b"Exif\0\0") and found.orientation is None:
        found.orientation = orientation_of(content[6:])
