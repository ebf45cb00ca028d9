"""A limit on one value of each row: which rows keep within it, and in words, on which side a row lies."""

from dataclasses import dataclass

import numpy as np

from demur.uncertainty.checks import Array, Mask

UNKNOWN = "the confidence is unknown, and what is unknown is held"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The limit itself counts as within. NaN never does: what is unknown is held."""

    of: str
    """`confidence`, or the name of a score."""

    bound: float
    meaning: str
    """What the limit stands for; ends every reason."""

    least: bool
    """True: values from `bound` up are within, as for confidence. False: values up to `bound`, as for scores."""

    def keeps(self, values: Array) -> Mask:
        """Return [n], True where the value is within the limit."""
        return np.asarray(values >= self.bound if self.least else values <= self.bound)

    def reason(self, value: float) -> str:
        """Say on which side of the limit a value lies."""
        if np.isnan(value):
            return UNKNOWN if self.least else f"{self.of} is undefined, and what is unknown is held"
        if self.least and np.isinf(self.bound):
            return f"no {self.of} is enough: {self.meaning}"
        here, there = told_apart(value, self.bound)
        if self.least:
            relation = "at or above" if value >= self.bound else "below"
        else:
            relation = "at or below" if value <= self.bound else "above"
        return f"{self.of} {here} is {relation} {there}, {self.meaning}"


def told_apart(a: float, b: float) -> tuple[str, str]:
    """Write two numbers with as few decimals, two or more, as show that they differ."""
    for digits in range(2, 16):
        texts = f"{a:.{digits}f}", f"{b:.{digits}f}"
        if texts[0] != texts[1] or a == b:
            return texts
    return repr(a), repr(b)
