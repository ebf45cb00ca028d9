"""PNG: chunks with a length and a type.

What reaches the decoder, and what is stored, is a new file of the chunks that make pixels. Profiles, texts, animations
and what cameras say of place and time stay behind.
"""

import io
import struct
import zlib
from functools import partial

from PIL.PngImagePlugin import PngImageFile

from demur.serve.contract.pictures.orientation import UPRIGHT, orientation_of
from demur.serve.contract.pictures.picture_file import (
    CANNOT_BE_READ,
    PictureFile,
    Pieces,
    cannot_be_read,
    on_its_side,
)

NAME = "PNG"
SIGNATURE = b"\x89PNG\r\n\x1a\n"

HEAD_OF_CHUNK = struct.Struct(">I4s")
"""The length and the type."""

CHECKSUM = struct.Struct(">I")
"""Stands behind each chunk."""

BEFORE_PIXELS = (b"IHDR", b"PLTE")
"""Chunks that a decoder needs before the image data: the size and the palette. A file has each once."""

IMAGE_DATA, EXIF, END = b"IDAT", b"eXIf", b"IEND"


class PngFormat:
    """Portable Network Graphics."""

    name = NAME
    media_type = "image/png"

    def begins(self, file: bytes) -> bool:
        """Whether a file begins as a PNG does."""
        return file.startswith(SIGNATURE[:4])

    def read(self, file: bytes) -> PictureFile:
        """Return its size, as the decoder sees it, and its pixels, not decoded yet."""
        pixels = _pixel_data(file)
        try:
            with PngImageFile(io.BytesIO(pixels)) as image:
                width, height = image.size
        except CANNOT_BE_READ:
            raise cannot_be_read(NAME) from None
        return PictureFile(width=width, height=height, opened=partial(_opened, pixels), kept=pixels)


def _opened(pixels: bytes) -> PngImageFile:
    return PngImageFile(io.BytesIO(pixels))


def _pixel_data(png: bytes) -> bytes:
    """A PNG without all that makes no pixels (profiles, texts, animations), its image data in one piece.

    Texts and profiles are packed: a kilobyte of them unfolds into a megabyte. And the decoder's time for a thousand
    pieces of nothing is that for a thousand pieces. Raises `InvalidRequest` for a second header or palette, for a piece
    that nobody knows and no decoder may pass over, for very many pieces, and for bytes behind the end.
    """
    kept, data, missing, exif = [png[:8]], [], set(BEFORE_PIXELS), b""
    pieces, at, kind = Pieces(NAME, png), 8, b""
    while kind != END:
        pieces.count()
        if at + HEAD_OF_CHUNK.size > len(png):
            raise cannot_be_read(NAME, "it is cut short")
        length, kind = HEAD_OF_CHUNK.unpack_from(png, at)
        start, end = at, at + HEAD_OF_CHUNK.size + length + CHECKSUM.size
        content = slice(start + HEAD_OF_CHUNK.size, end - CHECKSUM.size)
        if end > len(png):
            raise cannot_be_read(NAME, "it is cut short")
        if kind == IMAGE_DATA:
            data.append(png[content])
        elif kind == EXIF:
            exif = exif or png[content]
        elif kind[0] & 32 == 0 and kind != END:  # not in lower case: nobody can do without it
            if kind not in missing or data:
                raise cannot_be_read(NAME)
            missing.remove(kind)
            kept.append(png[start:end])
        at = end
    if at != len(png):
        raise cannot_be_read(NAME, f"{len(png) - at:,} bytes stand after its end; save it again without them")
    if not data:
        raise cannot_be_read(NAME)
    if orientation_of(exif) != UPRIGHT:
        raise on_its_side(NAME)
    return b"".join([*kept, _chunk(IMAGE_DATA, b"".join(data)), _chunk(END, b"")])


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(content, zlib.crc32(kind))
    return b"".join((HEAD_OF_CHUNK.pack(len(content), kind), content, CHECKSUM.pack(checksum)))
