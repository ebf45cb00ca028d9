"""How many rows to label so that each part of a fit gets as many as it needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from demur.calibration_store.rows_apart import RowsApart, TooFewRows, rows_apart
from demur.policies.selector_recipe import SelectorRecipe

MANY = 100_000
"""So many rows show which share of them a part of the fit gets."""


@dataclass(frozen=True)
class LabelAdvice:
    """The parts of a fit at any number of labelled rows."""

    recipes: Sequence[SelectorRecipe]
    report_share: float
    share_kept: float
    """The share of the labelled rows that thinning leaves."""

    def gets(self, part: Callable[[RowsApart], int], n: int) -> int:
        """Return how many rows a part gets of `n` that are left after thinning; 0 where they are too few for a fit."""
        try:
            return part(rows_apart(n, self.recipes, report_share=self.report_share, rng=np.random.default_rng(0)))
        except TooFewRows:
            return 0

    def needed(self, least: int, part: Callable[[RowsApart], int]) -> int:
        """Return the smallest number of labelled rows of which a part gets `least`."""
        rows = max(1, ceil(least * MANY / max(1, self.gets(part, MANY))) - 3)
        while rows < MANY and self.gets(part, rows) < least:  # shares are rounded, so a few may be missing
            rows += 1
        return ceil(rows / self.share_kept)

    def label(self, least: int, part: Callable[[RowsApart], int]) -> str:
        return f"label at least {self.needed(least, part):,} rows"


def for_rule(apart: RowsApart) -> int:
    """How many rows the rule gets."""
    return len(apart.rule)
