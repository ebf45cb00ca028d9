"""How often Python looks for objects that only hold each other; nearly all others go when nobody holds them."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 20_000
"""Between two looks, in the place of 700: a batch under way is more than that, and each look goes through all of it."""


def look_rarely() -> None:
    """Let Python's garbage collector look rarely in a process that serves."""
    gc.set_threshold(NEW_OBJECTS, 10, 10)


@contextmanager
def without_collection() -> Iterator[None]:
    """Do not look meanwhile. Where torch and transformers are loaded there is nothing to find, and looking takes a
    sixth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
