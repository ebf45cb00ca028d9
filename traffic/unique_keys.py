"""JSON objects that say each thing once."""

from collections import Counter
from collections.abc import Sequence
from typing import Any


class RepeatedKey(ValueError):
    """A JSON object has a key twice: which of the two values counts, nobody can tell. The message names the key."""


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object from its pairs, as `object_pairs_hook` of json.loads. Raises `RepeatedKey`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise RepeatedKey(f"the key {twice!r} is there twice; leave one of them out")
    return found
