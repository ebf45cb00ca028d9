"""A draw that every machine repeats: which records get a label, or a new artifact, by chance (METHODS 9.1)."""

import hmac
from dataclasses import dataclass
from math import ldexp

BITS = 64


class InvalidDraw(ValueError):
    """A key, a purpose, a record id or a probability cannot be drawn with. The message names it and the rule."""


@dataclass(frozen=True, kw_only=True)
class SpotCheck:
    selected: bool
    draw: str
    """The draw as 16 hexadecimal digits."""


class Draws:
    """The draws of one purpose: the same record always gets the same one, and another purpose is independent.

    The key is secret and ids are given by the server: otherwise a caller could choose records that nobody checks. The
    key is hashed once and never shown; for two microseconds a record, keep the object.
    """

    def __init__(self, key: str, purpose: str = "spot-check") -> None:
        prefix = _encoded("purpose", purpose)
        if b"\0" in prefix:  # it ends the purpose, so that no other purpose and id make the same message
            raise InvalidDraw("purpose holds a zero byte")
        self._begun = hmac.new(_encoded("key", key), prefix + b"\0", "sha256")

    def of(self, record_id: str) -> int:
        """Return a whole number in [0, 2^64), uniform over records. One draw serves any number of limits."""
        digest = self._begun.copy()
        digest.update(_encoded("record_id", record_id))
        return int.from_bytes(digest.digest()[: BITS // 8], "big")


def limit(probability: float) -> int:
    """Return floor(probability 2^64): a record is selected if its draw is below.

    Scaling by a power of two is exact, so every machine agrees. 0 never selects and 1 always does, and with a higher
    probability whatever was selected stays so.
    """
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise InvalidDraw(f"probability is {probability!r}, not a number in [0, 1]")
    return int(ldexp(probability, BITS))


def spot_check(key: str, record_id: str, probability: float, purpose: str = "spot-check") -> SpotCheck:
    """Return whether the record is selected, and its draw."""
    draw = Draws(key, purpose).of(record_id)
    return SpotCheck(selected=draw < limit(probability), draw=f"{draw:016x}")


def _encoded(name: str, text: str) -> bytes:
    if not isinstance(text, str) or not text:
        raise InvalidDraw(f"{name} is {'empty' if text == '' else f'a {type(text).__name__}, not a text'}")
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        raise InvalidDraw(f"{name} is not Unicode text") from None
