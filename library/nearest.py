"""What somebody who mistyped a name has probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

CLOSE = 0.7
"""Share of the letters that two names have in common, in order, if one is probably the other mistyped."""

LONGEST = 100
"""Letters of a name that are compared: the time grows with their square."""


MOST_COMPARED = 1_000
"""Known names; of more, none is proposed: to compare them all would take longer than the rest of a request."""

FEWEST_BEGUN = 4
"""Letters with which a name must begin to be meant by them."""


def nearest(name: object, known: Iterable[str]) -> str | None:
    """Return the known name that is closest to this one; None where none is close."""
    if not isinstance(name, str):
        return None
    plain = {_plain(one): one for one in islice(known, MOST_COMPARED + 1)}
    if len(plain) > MOST_COMPARED:
        return None
    begun = [one for one in plain if len(name) >= FEWEST_BEGUN and one.startswith(_plain(name))]
    found = get_close_matches(_plain(name), plain, n=1, cutoff=CLOSE) or (begun if len(begun) == 1 else [])
    return plain[found[0]] if found else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known; empty where none is close."""
    meant = nearest(name, known)
    return f"; did you mean `{meant}`?" if meant is not None else ""


def one_of(name: object, known: Iterable[str], *, at_most: int = 50) -> str:
    """`'x' is not one of: a, b; did you mean ...`."""
    names = list(known)
    listed = ", ".join(names[:at_most]) + (f" and {len(names) - at_most:,} more" if len(names) > at_most else "")
    return f"{shown(name)} is not one of: {listed}{did_you_mean(name, names)}"


def shown(value: object) -> str:
    """A value in quotes, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _plain(name: str) -> str:
    """Without what people mistype most: case, and dashes for underscores."""
    return name[:LONGEST].casefold().replace("-", "_").replace(" ", "_")
