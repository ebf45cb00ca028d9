"""Chance that every machine repeats: numbers made from ids, the same wherever and however often they are made."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]


def of_ids(ids: Any) -> Hashes:
    """[n], from ids of 16 bytes: of an UUIDv7 the half that is random."""
    array = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if len(array) == 0:
        return np.empty(0, dtype=np.uint64)
    halves = np.frombuffer(array.buffers()[1], dtype=">u8")[2 * array.offset : 2 * (array.offset + len(array))]
    return mixed(halves[1::2].astype(np.uint64) ^ mixed(halves[::2].astype(np.uint64), 0), 0)


def of_texts(texts: Sequence[str]) -> Hashes:
    """[n], a number for each that hangs on the text alone (FNV-1a), to be `mixed`."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    lengths = np.array([len(each) for each in encoded], dtype=np.int64)
    every = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.uint64)
    begins = np.cumsum(lengths) - lengths
    numbers = np.full(len(encoded), 0xCBF29CE484222325, dtype=np.uint64)
    for at in range(int(lengths.max(initial=0))):  # the same byte of all that are long enough, at once
        rest = np.flatnonzero(lengths > at)
        numbers[rest] = (numbers[rest] ^ every[begins[rest] + at]) * np.uint64(0x100000001B3)
    return numbers


def mixed(numbers: Hashes, purpose: int) -> Hashes:
    """[n], another number for each; those of different purposes have nothing to do with each other (splitmix64)."""
    z = numbers + np.uint64(((purpose + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed_up: Hashes = z ^ (z >> np.uint64(31))
    return mixed_up


def shares(numbers: Hashes) -> NDArray[np.float64]:
    """[n], the numbers as uniform ones in [0, 1)."""
    return (numbers >> np.uint64(11)).astype(np.float64) * 2.0**-53
