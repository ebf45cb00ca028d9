"""Rows that belong together, such as those of one patient, one document or one input (METHODS 10.8).

They are not independent: a promise that counts them one by one is made too easily. They fall into one part of a
split, and of each cluster one row certifies a promise. The draws are those of `traffic/draw.py`: every machine repeats
them.
"""

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from demur.traffic.draw import Draws, limit
from demur.uncertainty.checks import InvalidInput, finite, same_length


def merge_duplicates(clusters: Any, inputs: Any) -> list[int]:
    """Return [n]: the number of each row's cluster, from 0 by first appearance.

    Rows are together if they share a name in `clusters` or an input in `inputs` (a digest of it, say), directly or
    through other rows. None equals nothing.
    """
    named, given = _column("clusters", clusters), _column("inputs", inputs)
    same_length(clusters=named, inputs=given)
    parent = list(range(len(named)))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    for column in (named, given):
        first: dict[Hashable, int] = {}
        for row, value in enumerate(column):
            if value is None:
                continue
            low, high = sorted((root(first.setdefault(value, row)), root(row)))
            parent[high] = low  # the root is the first row of the cluster
    numbers: dict[int, int] = {}
    return [numbers.setdefault(root(row), len(numbers)) for row in range(len(named))]


def cluster_remark(n: int, n_clusters: int, repeated: int, *, together: bool) -> str:
    """Say how `n` labelled rows fall into clusters; `repeated` of them have an input that another one had before.

    `together`: equal inputs make a cluster.
    """
    equal = f" {repeated:,} rows repeat the input of another." if repeated else ""
    return (
        f"The {n:,} labelled rows are of {n_clusters:,} clusters: rows that share a `cluster`"
        f"{' or an input' if together else ''}.{equal} A cluster is in one part of the split, and one row of each"
        " counts for promises and for the report."
    )


def input_digests(inputs: Sequence[Any]) -> list[str]:
    """Return [n]: equal texts for equal inputs, which are whatever JSON can write."""
    return [
        hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False, default=repr).encode()).hexdigest()
        for value in inputs
    ]


def split_by_cluster(clusters: Any, key: str, shares: Any, purpose: str = "split") -> list[int]:
    """Return [n]: the part, from 0, into which each row's cluster is drawn, with the chances `shares`.

    Shares are above 0 and add up to 1. `clusters` [n] are names, as texts. All rows of a cluster fall into one part, on
    every machine, and stay there when rows are added. `key` is secret; another `purpose` is an independent draw.
    """
    names, parts = _texts("clusters", clusters), finite("shares", shares)
    if parts.min() <= 0 or abs(parts.sum() - 1) > 1e-9:
        raise InvalidInput("shares are above 0 and add up to 1")
    draws = Draws(key, purpose)
    ends = [limit(min(1.0, end)) for end in accumulate(parts.tolist())][:-1]
    part = {name: sum(draw >= end for end in ends) for name in set(names) for draw in [draws.of(name)]}
    return [part[name] for name in names]


def one_per_cluster(clusters: Any, record_ids: Any, key: str, purpose: str = "cluster-row") -> list[int]:
    """Return the positions, in ascending order, of one drawn row of each cluster: a plain sample of clusters.

    `clusters` [n] are names or numbers, and none is None; `record_ids` [n] are texts that all differ. Which row is
    drawn does not depend on the order of the rows.
    """
    names, ids = _column("clusters", clusters), _texts("record_ids", record_ids)
    same_length(clusters=names, record_ids=ids)
    if any(name is None for name in names):
        raise InvalidInput("clusters holds None; give each row without a cluster one of its own")
    if len(set(ids)) < len(ids):
        raise InvalidInput("record_ids repeats an id")
    draws = Draws(key, purpose)
    best: dict[Hashable, tuple[int, str, int]] = {}
    for row, (name, record) in enumerate(zip(names, ids, strict=True)):
        mine = (draws.of(record), record, row)
        best[name] = min(mine, best.get(name, mine))
    return sorted(row for _, _, row in best.values())


def _column(name: str, values: Any) -> Sequence[Hashable]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is not a list")
    try:
        rows = list(values)
    except TypeError:  # an array without an axis
        raise InvalidInput(f"{name} is not a list") from None
    if not rows:
        raise InvalidInput(f"{name} is empty")
    for value in rows:
        if isinstance(value, bool) or not (value is None or isinstance(value, str | int)):
            raise InvalidInput(f"{name} holds {type(value).__name__}; a name is a text or a whole number")
    return rows


def _texts(name: str, values: Any) -> list[str]:
    rows = [value for value in _column(name, values) if isinstance(value, str) and value]
    if len(rows) < len(_column(name, values)):
        raise InvalidInput(f"{name} holds something other than a non-empty text")
    return rows
