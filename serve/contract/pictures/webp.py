"""WebP: chunks in a RIFF file, of which one is the picture.

What reaches the decoder is a new file of that chunk alone. Transparency of its own (`ALPH`) stays behind with profiles
and texts: what is transparent has the colour that it has.
"""

import io
import struct
from functools import partial

from PIL.WebPImagePlugin import WebPImageFile

from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.pictures.orientation import UPRIGHT, orientation_of
from demur.serve.contract.pictures.picture_file import PictureFile, Pieces, cannot_be_read, on_its_side

NAME = "WebP"

HEAD = struct.Struct("<4sI")
"""The type and the length of a chunk."""

LOSSY, LOSSLESS, EXTENDED, ALPHA, EXIF = b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"EXIF"
MOVING = (b"ANIM", b"ANMF")

ANIMATION_FLAG = 0x02
EXTENDED_BYTES = 10


class WebpFormat:
    """Google's format, with loss or without, one picture in a file."""

    name = NAME
    media_type = "image/webp"

    def begins(self, file: bytes) -> bool:
        """Whether a file begins as a WebP does."""
        return file[:4] == b"RIFF" and file[8:12] == b"WEBP"

    def read(self, file: bytes) -> PictureFile:
        """Return its size, and its pixels, not decoded yet."""
        if int.from_bytes(file[4:8], "little") + 8 != len(file):
            raise cannot_be_read(NAME, "it says that it has another number of bytes than came")
        kind, picture = _picture_of(file)
        width, height = (_lossy_size if kind == LOSSY else _lossless_size)(picture)
        if (canvas := _canvas(file)) is not None and canvas != (width, height):
            raise cannot_be_read(NAME, "it says two different sizes")
        pixels = _file_of(kind, picture)
        return PictureFile(width=width, height=height, opened=partial(_opened, pixels), kept=pixels)


def _opened(pixels: bytes) -> WebPImageFile:
    return WebPImageFile(io.BytesIO(pixels))


def _picture_of(file: bytes) -> tuple[bytes, bytes]:
    """Return the chunk of the picture, its type and its content. Raises `InvalidRequest`."""
    picture: tuple[bytes, bytes] | None = None
    pieces, at, seen = Pieces(NAME, file), 12, set[bytes]()
    while at < len(file):
        pieces.count()
        if at + HEAD.size > len(file):
            raise cannot_be_read(NAME, "it is cut short")
        kind, length = HEAD.unpack_from(file, at)
        start, end = at + HEAD.size, at + HEAD.size + length
        if end + length % 2 > len(file):
            raise cannot_be_read(NAME, "it is cut short")
        if kind in MOVING:
            raise _moves()
        if (kind == EXTENDED and at != 12) or (kind in (ALPHA, EXIF) and kind in seen) or (kind == ALPHA and picture):
            raise cannot_be_read(NAME)
        if kind == EXIF and orientation_of(file[start:end].removeprefix(b"Exif\0\0")) != UPRIGHT:
            raise on_its_side(NAME)
        if kind in (LOSSY, LOSSLESS):
            if picture:
                raise cannot_be_read(NAME, "it has two pictures")
            picture = kind, file[start:end]
        seen.add(kind)
        at = end + length % 2
    if picture is None or (picture[0] == LOSSLESS and ALPHA in seen):
        raise cannot_be_read(NAME)
    return picture


def _canvas(file: bytes) -> tuple[int, int] | None:
    """Return the size that an extended header says; None where there is no such header."""
    kind, length = HEAD.unpack_from(file, 12)
    if kind != EXTENDED:
        return None
    if length != EXTENDED_BYTES:
        raise cannot_be_read(NAME)
    header = file[20 : 20 + EXTENDED_BYTES]
    if header[0] & ANIMATION_FLAG:
        raise _moves()
    return int.from_bytes(header[4:7], "little") + 1, int.from_bytes(header[7:10], "little") + 1


def _lossy_size(picture: bytes) -> tuple[int, int]:
    """Return the size of a frame of VP8 (RFC 6386, section 9.1): a key frame that is shown."""
    if len(picture) < 10 or picture[3:6] != b"\x9d\x01\x2a" or picture[0] & 1 or not picture[0] & 16:
        raise cannot_be_read(NAME)
    width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", picture, 6))  # above them, how to enlarge it
    if not width or not height:
        raise cannot_be_read(NAME)
    return width, height


def _lossless_size(picture: bytes) -> tuple[int, int]:
    """Return the size of a picture without loss (WebP Lossless Bitstream Specification, section 3)."""
    if len(picture) < 5 or picture[0] != 0x2F:
        raise cannot_be_read(NAME)
    (bits,) = struct.unpack_from("<I", picture, 1)
    if bits >> 29:  # the version
        raise cannot_be_read(NAME)
    return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1


def _file_of(kind: bytes, picture: bytes) -> bytes:
    content = HEAD.pack(kind, len(picture)) + picture + bytes(len(picture) % 2)
    return HEAD.pack(b"RIFF", 4 + len(content)) + b"WEBP" + content


def _moves() -> InvalidRequest:
    return InvalidRequest("input: the image is an animated WebP; send one picture of it")
