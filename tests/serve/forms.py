"""Forms with files, written by hand, also such as no client would send."""

from collections.abc import Iterable

BOUNDARY = "a-boundary"
FORM = f"multipart/form-data; boundary={BOUNDARY}"


def part(name: str, content: bytes | str, *, headers: Iterable[str] = (), filename: str | None = None) -> bytes:
    """Return one part. It has a name of a file if one is given."""
    file = "" if filename is None else f'; filename="{filename}"'
    head = [f'Content-Disposition: form-data; name="{name}"{file}', *headers]
    written = content.encode() if isinstance(content, str) else content
    return "\r\n".join([*head, "", ""]).encode() + written


def form(*parts: bytes, boundary: str = BOUNDARY) -> bytes:
    """Return the body of a form with these parts."""
    line = f"--{boundary}".encode()
    return b"".join(line + b"\r\n" + one + b"\r\n" for one in parts) + line + b"--\r\n"
