"""The quantity that a promise is about, measured on rows whose outcome is known: in replays as in audits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, Self

from demur.policies.promise import (
    LABELS_MISSING,
    LABELS_NOT_PREDICTED,
    ROWS_LABELS_MISSING,
    ROWS_LABELS_NOT_PREDICTED,
    as_it_holds,
)
from demur.uncertainty.checks import Mask

SETS_LACK = "of the sets lack the right label"

OF_SETS = frozenset({SETS_LACK, ROWS_LABELS_MISSING, LABELS_MISSING})
OF_PREDICTED = frozenset({ROWS_LABELS_NOT_PREDICTED, LABELS_NOT_PREDICTED})
OF_LABELS = frozenset({LABELS_MISSING, LABELS_NOT_PREDICTED})


@dataclass(frozen=True, kw_only=True)
class MissedSums:
    """Sums over rows of the labels that hold and of those that are missing; a row without labels misses nothing."""

    n: int = 0
    held: int = 0
    """Labels that hold."""

    missed: int = 0
    shares: float = 0.0
    """The sum over rows of the share of their labels that is missing."""

    def added(self, shown: Mask, truth: Mask) -> Self:
        """With further rows: labels that are `shown` [n, C], and those that hold [n, C]."""
        held, missed = truth.sum(axis=1), (truth & ~shown).sum(axis=1)
        return type(self)(
            n=self.n + len(truth),
            held=self.held + int(held.sum()),
            missed=self.missed + int(missed.sum()),
            shares=self.shares + float((missed / held.clip(min=1)).sum()),
        )


@dataclass(frozen=True, kw_only=True)
class PromisedShare:
    """What a promise is about, as it came out on some rows, unweighted."""

    statement: str
    target: float
    value: float
    """NaN where no row says anything of it."""

    n: int
    """Rows with an outcome; labels that hold, where the promise is about these."""


def promised_shares(
    promises: Sequence[Mapping[str, Any]], sets: MissedSums, predicted: MissedSums
) -> list[PromisedShare]:
    """Return the share behind each promise about sets or labels, from what the rows' sets and predictions missed.

    Promises about answers are left out, as their share is the risk that a replay tells anyway, and so are those about
    groups.
    """
    found = []
    for promise in map(as_it_holds, promises):
        share = promise.get("share")
        if share not in OF_SETS | OF_PREDICTED:
            continue
        sums = predicted if share in OF_PREDICTED else sets
        n, misses = (sums.held, float(sums.missed)) if share in OF_LABELS else (sums.n, sums.shares)
        found.append(
            PromisedShare(
                statement=f"{100 * float(promise['target']):g}% {share}",
                target=float(promise["target"]),
                value=misses / n if n else nan,
                n=n,
            )
        )
    return found
