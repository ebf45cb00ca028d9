"""Functions and classes of a user that the configuration names as `package.module:name`."""

import os
import sys
from importlib import import_module
from typing import Any

LONGEST_LINE = 300


class NotFound(ValueError):
    """A name in the configuration leads nowhere. Install its package, or start demur in the folder that has it. Mend a
    module that fails when it is imported."""


def load_named(name: str) -> Any:
    """Return what `package.module:name` names.

    The module is looked for among the installed packages first, and then in the current folder, which comes last on the
    search path: a module of a user takes the place of no other. Raises `NotFound`.
    """
    search_here()
    path, _, attribute = name.partition(":")
    try:
        module = import_module(path)
    except ImportError as error:
        raise NotFound(f"there is no {name!r}: {error}") from None
    except (Exception, SystemExit) as error:  # whatever a user's module does when it is imported
        raise NotFound(f"the module {path!r} cannot be imported: {in_words(error)}") from error
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        raise NotFound(f"there is no {name!r}: {error}") from None


def in_words(error: BaseException) -> str:
    """Return the type of an error of somebody else's code and the first line of what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:LONGEST_LINE]}" if lines else type(error).__name__


def search_here() -> None:
    """Let modules of the current folder be found, after all others."""
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
