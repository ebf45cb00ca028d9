"""A file that is there whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which becomes the one at `path` when the block ends well. Nobody else may read it."""
    with NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            yield file.file  # type: ignore[misc]  # a file of bytes, whatever the stubs say of it
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            with suppress(FileNotFoundError):
                Path(file.name).unlink()
            raise
