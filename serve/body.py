"""How much structure a JSON body may have: looked at before it is parsed, because what is parsed costs a hundred times
its bytes."""

import re

from serve.inputs import TooLarge

MOST_VALUES = 1_000_000
"""Values of one body: the pixels of a thousand digits, or of six pictures of 224 by 224 in colour."""

MOST_KEYS = 50_000
"""Keys of all objects of one body: a batch of 1,024 with everything that can be said has a sixth of them."""

MOST_KEYS_OF_A_FILE = 1_000_000
"""The same of a file that is taken in."""

NOT_LOOKED_AT = 50_000
"""A body of at most so many bytes cannot have more of anything."""

STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
"""No part of it can match what another does, so the time it takes grows with the text and no faster."""


def check_structure(body: bytes, *, most_keys: int = MOST_KEYS) -> None:
    """Raise `TooLarge` for more values, or more keys, than are taken. A body that is no JSON may pass."""
    if len(body) <= NOT_LOOKED_AT:
        return
    if _values(body) <= MOST_VALUES and body.count(b":") <= most_keys:  # as they stand, in texts as well
        return
    outside = STRING.sub(b"", body)
    if (values := _values(outside)) > MOST_VALUES:
        raise TooLarge(f"the body has {values:,} values; at most {MOST_VALUES:,} are taken at once")
    if (keys := outside.count(b":")) > most_keys:
        raise TooLarge(f"the body has {keys:,} keys; at most {most_keys:,} are taken at once")


def _values(body: bytes) -> int:
    """At least as many as there are: each stands behind a comma, or first in a list or an object."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")
