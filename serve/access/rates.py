"""How often something may happen: a bucket that fills at a steady rate."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """So many per second on average, and at most `burst` at once after a quiet time."""

    per_second: float
    burst: float


class Bucket:
    """What is left of a rate. It begins full."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate, self._left, self._at = rate, rate.burst, now

    def wait(self, n: float, now: float) -> float:
        """Seconds until `n` may pass; 0 for at once. What is more than the burst passes when the bucket is full."""
        self._left = min(self.rate.burst, self._left + max(0.0, now - self._at) * self.rate.per_second)
        self._at = max(now, self._at)
        return max(0.0, min(n, self.rate.burst) - self._left) / self.rate.per_second

    def take(self, n: float) -> None:
        """Take out `n` after `wait` has said 0. What is more than the burst is owed: the rate holds on average."""
        self._left -= n
