"""Secrets stand in no configuration: it says where they are."""

import os
from pathlib import Path
from typing import Any

ENV, FILE = "env:", "file:"


def told_elsewhere(value: Any) -> Any:
    """What the environment variable of `env:NAME`, or the file of `file:/path`, holds; anything else as it is. Errors
    name the place and never what stands there."""
    if not isinstance(value, str):
        return value
    if value.startswith(ENV):
        name = value.removeprefix(ENV)
        found = os.environ.get(name, "").strip()
        if not found:
            raise ValueError(f"the environment variable {name} is not set, and it should hold this")
        return found
    if value.startswith(FILE):
        path = Path(value.removeprefix(FILE))
        try:
            found = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise ValueError(f"the file {path} cannot be read, and it should hold this") from None
        if not found:
            raise ValueError(f"the file {path} is empty, and it should hold this")
        return found
    return value
