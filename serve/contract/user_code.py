"""Functions and classes of a user that the configuration names as `package.module:name`."""

import os
import sys
from importlib import import_module
from typing import Any


class NotFound(ValueError):
    """A name in the configuration leads nowhere. Install its package, or start demur in the folder that has it."""


def load_named(name: str) -> Any:
    """Return what `package.module:name` names.

    The module is looked for among the installed packages first, and then in the current folder, which comes last on the
    search path: a module of a user takes the place of no other. Raises `NotFound`.
    """
    search_here()
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise NotFound(f"there is no {name!r}: {error}") from None


def search_here() -> None:
    """Let modules of the current folder be found, after all others."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
