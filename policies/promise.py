"""What an artifact states about traffic that it has not seen, and what must be true for it to hold."""

from dataclasses import dataclass

SAME_TRAFFIC = "later traffic is drawn like the calibration data"


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A share that is kept small, and how surely."""

    share: str
    """Of what, in words that follow a percentage: `of the answers are wrong`."""

    target: float
    """The share is at most this."""

    delta: float | None
    """How probable it was, before the calibration rows were drawn, that the promise would be broken. None: it holds on
    average over such draws, and over the rows that come, which is less."""

    n: int
    """Labelled rows that it rests on."""

    errors: int | None = None
    """Of those that would be answered, the wrong ones; None where nothing is counted."""

    bound: float | None = None
    """The upper bound of the share that these rows leave; None where there is none."""

    feasible: bool = True
    """False: the rows cannot carry it, and nothing is promised."""

    assumption: str = SAME_TRAFFIC

    @property
    def statement(self) -> str:
        """The promise as a sentence."""
        if not self.feasible:
            return f"nothing is promised: {self.n:,} labelled rows cannot show that at most {self._what}"
        surely = "on average" if self.delta is None else f"except with probability {100 * self.delta:g}%"
        return f"at most {self._what}, {surely}, as long as {self.assumption}"

    @property
    def _what(self) -> str:
        return f"{100 * self.target:g}% {self.share}"
