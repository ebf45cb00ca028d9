"""A draw that every machine repeats: a number for each record that nobody can foresee (METHODS 9.1)."""

import hmac


class Draws:
    """The draws of one purpose: the same record always gets the same one, and another purpose is independent."""

    def __init__(self, key: str, purpose: str) -> None:
        self._begun = hmac.new(key.encode(), purpose.encode() + b"\0", "sha256")

    def of(self, record_id: str) -> int:
        """Return a whole number in [0, 2^64)."""
        digest = self._begun.copy()
        digest.update(record_id.encode())
        return int.from_bytes(digest.digest()[:8], "big")


def limit(probability: float) -> int:
    """Return floor(probability 2^64): a record is selected if its draw is below."""
    return int(probability * 2**64)
