"""The orientation of a picture that its Exif names, read without a library: one number of all that a camera writes."""

import struct

from PIL import Image

ORIENTATION, SHORT = 0x0112, 3
"""The tag, and the type of its value."""

UPRIGHT = 1

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""By the orientation, what makes a picture upright; `PIL.ImageOps.exif_transpose` has the same table."""


def exif_of(orientation: int) -> bytes:
    """Return Exif that names an orientation and nothing else."""
    return struct.pack(">4sIHHHIHHI", b"MM\0*", 8, 1, ORIENTATION, SHORT, 1, orientation, 0, 0)


def orientation_of(exif: bytes) -> int:
    """Return the orientation that Exif names (TIFF, tag 274), from 1 (upright) to 8; 1 where it names none."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None:
        return UPRIGHT
    try:
        (directory,) = struct.unpack_from(f"{order}I", exif, 4)
        (entries,) = struct.unpack_from(f"{order}H", exif, directory)
        for entry in range(entries):
            tag, kind, count, value = struct.unpack_from(f"{order}HHIH", exif, directory + 2 + 12 * entry)
            if tag == ORIENTATION:
                return value if kind == SHORT and count == 1 and value in TURNS else UPRIGHT
    except struct.error:
        return UPRIGHT
    return UPRIGHT
