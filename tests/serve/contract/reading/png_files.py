"""PNG files written by hand, also such as no program would write."""

import base64
import struct
import zlib

from demur.serve.contract.pictures.formats import PNG, prefix_of

PNG_PREFIX = prefix_of(PNG)

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Of each colour type."""

PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""Of an interlaced picture: where each begins, and how far apart its pixels are."""


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def header(width: int, height: int, *, depth: int = 1, colour: int = 0, interlaced: bool = False) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))


def png(
    width: int,
    height: int,
    *,
    depth: int = 1,
    colour: int = 0,
    interlaced: bool = False,
    first: bytes = b"",
    before: bytes = b"",
    after: bytes = b"",
    rows: bytes | None = None,
) -> bytes:
    """A file whose pixels are all 0, unless its rows are given. `first`, `before` and `after` are chunks before the
    header, before the image data, and after it."""
    if rows is None:
        sizes = (
            [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in PASSES if width > x and height > y]
            if interlaced
            else [(width, height)]
        )
        rows = b"".join(bytes(1 + (wide * depth * CHANNELS[colour] + 7) // 8) * high for wide, high in sizes)
    palette = chunk(b"PLTE", bytes(range(256)) * 3) if colour == 3 else b""
    head = first + header(width, height, depth=depth, colour=colour, interlaced=interlaced)
    return b"".join(
        (SIGNATURE, head, palette, before, chunk(b"IDAT", zlib.compress(rows, 9)), after, chunk(b"IEND", b""))
    )


def url(file: bytes) -> str:
    return PNG_PREFIX + base64.b64encode(file).decode()


FLOOD = url(png(4090, 4090))
"""Sixteen million pixels in less than three kilobytes."""

HIDDEN = url(png(4090, 4090, first=chunk(b"tEXt", bytes(16))))
"""The same behind a text, so that where width and height are usually there is 0 x 0."""
