"""PNG: chunks with a length and a type."""

import io
import struct
from functools import partial

from PIL.PngImagePlugin import PngImageFile

from demur.serve.contract.pictures.picture_file import CANNOT_BE_READ, PictureFile, Pieces, cannot_be_read

SIGNATURE = b"\x89PNG\r\n\x1a\n"

HEAD_OF_CHUNK = struct.Struct(">I4s")
"""The length and the type."""

BEFORE_PIXELS = (b"IHDR", b"PLTE")
"""Chunks that a decoder needs before the image data: the size and the palette. A file has each once."""


class PngFormat:
    """Portable Network Graphics."""

    name = "PNG"
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
            raise cannot_be_read(self.name) from None
        return PictureFile(width=width, height=height, opened=partial(_opened, pixels))


def _opened(pixels: bytes) -> PngImageFile:
    return PngImageFile(io.BytesIO(pixels))


def _pixel_data(png: bytes) -> bytes:
    """A PNG without all that makes no pixels (profiles, texts, animations), its image data in one piece.

    Texts and profiles are packed: a kilobyte of them unfolds into a megabyte. And the decoder's time for a thousand
    pieces of nothing is that for a thousand pieces. Raises `InvalidRequest` for a second header or palette, for a piece
    that nobody knows and no decoder may pass over, and for very many pieces.
    """
    kept, data, at, missing = [png[:8]], [], 8, set(BEFORE_PIXELS)
    pieces = Pieces(PngFormat.name, png)
    while at + HEAD_OF_CHUNK.size <= len(png):
        pieces.count()
        length, kind = HEAD_OF_CHUNK.unpack_from(png, at)
        end = at + HEAD_OF_CHUNK.size + length + 4  # with its checksum
        if kind == b"IDAT":
            data.append(png[at + HEAD_OF_CHUNK.size : end - 4])
        elif kind[0] & 32 == 0:  # not in lower case: nobody can do without it
            if data:
                break
            if kind not in missing:
                raise cannot_be_read(PngFormat.name)
            missing.remove(kind)
            kept.append(png[at:end])
        at = end
    image = b"".join(data)
    return b"".join([*kept, len(image).to_bytes(4, "big"), b"IDAT", image, bytes(4)])
