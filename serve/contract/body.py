"""How much structure a JSON body may have: looked at before it is parsed, because what is parsed costs a hundred times
its bytes. And where large bodies are read: beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from demur.serve.contract.inputs import InvalidRequest, TooLarge

MOST_VALUES = 1_000_000
"""Values of one body: the pixels of a thousand digits, or of six pictures of 224 by 224 in colour."""

MOST_KEYS = 50_000
"""Keys of all objects of one body: a batch of 1,024 with everything that can be said has a sixth of them."""

MOST_KEYS_OF_A_FILE = 1_000_000
"""The same of a file that is taken in."""

LEAST_WHOLE, MOST_WHOLE = -(2**63), 2**64 - 1
"""Whole numbers between these are written as such. The parser that most bodies go through makes floating point of
others."""

NOT_LOOKED_AT = 50_000
"""A body of at most so many bytes cannot have more of anything."""

PIECE = 2**20
"""Bytes that are counted at a time, so that counting takes little memory."""

SMALL = 2**16
"""A body of at most so many bytes is read where it is, in less time than another thread takes to begin."""

T = TypeVar("T")

_reader = ThreadPoolExecutor(1, "bodies")
"""One for each process: parsers keep other threads waiting, so that two large bodies at a time would help nobody."""


async def read_apart(size: int, work: Callable[[], T]) -> T:
    """Return what some work makes of a body of so many bytes. The work for a large one is done in a thread, one body
    after the other, and other requests go on meanwhile."""
    if size <= SMALL:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_reader, work)


def check_structure(body: bytes, *, most_keys: int = MOST_KEYS) -> None:
    """Raise `TooLarge` for more values, or more keys, than are taken. A body that is no JSON may pass."""
    if len(body) <= NOT_LOOKED_AT:
        return
    if _values(body) <= MOST_VALUES and body.count(b":") <= most_keys:  # as they stand, in texts as well
        return
    values, keys = _outside_texts(body)
    if values > MOST_VALUES:
        raise TooLarge(f"the body has {values:,} values; at most {MOST_VALUES:,} are taken at once")
    if keys > most_keys:
        raise TooLarge(f"the body has {keys:,} keys; at most {most_keys:,} are taken at once")


def check_whole_numbers(value: Any) -> None:
    """Raise `InvalidRequest`, with its place, for a whole number that JSON on record cannot hold: the record of its
    request could not be written."""
    left: list[tuple[str, Any]] = [("", value)]
    while left:
        place, one = left.pop()
        if type(one) is int:
            if not LEAST_WHOLE <= one <= MOST_WHOLE:
                raise InvalidRequest(
                    f"{place or 'the body'}: a whole number of {len(str(abs(one))):,} digits is not taken; the"
                    " largest have 64 bits, and floating point goes up to 1.8e308"
                )
        elif type(one) is dict:
            left += [(f"{place}.{key}" if place else str(key), inner) for key, inner in one.items()]
        elif type(one) is list:
            left += [(f"{place}.{at}" if place else str(at), inner) for at, inner in enumerate(one)]


def _values(body: bytes) -> int:
    """At least as many as there are: each stands behind a comma, or first in a list or an object."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")


def _outside_texts(body: bytes) -> tuple[int, int]:
    """Values as `_values` counts them, and keys, without what stands in texts. Each step goes through the body once,
    whatever is in it, and numpy lets other threads go on meanwhile."""
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")  # now every quote begins or ends a text
    values, keys, quotes_before = 1, 0, 0
    for start in range(0, len(bare), PIECE):
        piece = np.frombuffer(bare, np.uint8, min(PIECE, len(bare) - start), start)
        quotes = np.cumsum(piece == ord('"'), dtype=np.uint8) + np.uint8(
            quotes_before
        )  # it wraps, and stays odd or even
        outside = quotes % 2 == 0
        values += int(np.count_nonzero(outside & ((piece == ord(",")) | (piece == ord("[")) | (piece == ord("{")))))
        keys += int(np.count_nonzero(outside & (piece == ord(":"))))
        quotes_before = int(quotes[-1]) % 2
    return values, keys
