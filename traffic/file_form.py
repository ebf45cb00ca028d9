"""How a file of labelled rows is to be read."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FileForm:
    """What a file calls its columns, and its encoding, where whoever reads it can say so."""

    input: str = "input"
    label: str = "label"
    """`labels` will do as well where nothing else is named."""

    encoding: str | None = None
    """None: as the file's first bytes say, else UTF-8."""
