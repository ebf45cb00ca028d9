"""A limit on one value of each row: which rows keep within it, and in words, on which side a row lies."""

from dataclasses import dataclass

import numpy as np

from demur.uncertainty.checks import Array, Mask

FEWEST_DECIMALS = 2

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

    def reasons(self, values: Array) -> list[str]:
        """[n], on which side of the limit each of [n] values lies: what `reason` says, at a third of its time."""
        if np.isinf(self.bound):
            return [self.reason(value) for value in values.tolist()]
        there = f"{self.bound:.{FEWEST_DECIMALS}f}"
        sides = ("at or above", "below") if self.least else ("at or below", "above")
        inside, outside = (f" is {side} {there}, {self.meaning}" for side in sides)
        found = []
        for value, within in zip(values.tolist(), self.keeps(values).tolist(), strict=True):
            here = f"{value:.{FEWEST_DECIMALS}f}"
            if here == there or here == "nan":  # more decimals, or other words
                found.append(self.reason(value))
            else:
                found.append(f"{self.of} {here}{inside if within else outside}")
        return found


def told_apart(a: float, b: float) -> tuple[str, str]:
    """Write two numbers with as few decimals, two or more, as show that they differ."""
    for digits in range(FEWEST_DECIMALS, 16):
        texts = f"{a:.{digits}f}", f"{b:.{digits}f}"
        if texts[0] != texts[1] or a == b:
            return texts
    return repr(a), repr(b)
