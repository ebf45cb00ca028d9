"""A number measured on several splits: its mean, and how far the splits differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Spread:
    """`sd` describes the splits, which share rows: it is no standard error."""

    mean: float
    sd: float


Spreads = Mapping[str, Spread]


def over_splits(measured: Sequence[Mapping[str, float]]) -> dict[str, Spread]:
    """Mean and standard deviation of each named number; NaN where a split has none."""
    columns = {name: np.array([values[name] for values in measured]) for name in measured[0]}
    return {name: Spread(mean=float(v.mean()), sd=float(v.std(ddof=1))) for name, v in columns.items()}
