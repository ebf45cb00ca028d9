"""Two artifacts of one model on the same labelled rows: every number twice, and what is between them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

import numpy as np

from audit.calibration import bin_numbers
from audit.comparison import DecisionFlips, McNemar, flips_of, mcnemar
from audit.resampling import REPLICATES, percentile_interval, resampled
from uncertainty.checks import Array, InvalidInput, Mask, same_length, unit_interval

SEED = 0
BINS = 15

MEANINGS = {
    "coverage": "share that is answered",
    "selective_risk": "mean loss among the answered: the share of wrong answers",
    "accuracy": "mean quality of all predictions, answered or not",
    "ece": "gap of confidence and share right, over 15 equal intervals",
    "brier": "mean squared gap of confidence and outcome",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Contender:
    """What one artifact makes of `n` rows whose truth is known."""

    answered: Mask
    confidence: Array
    """[n], calibrated; no NaN."""

    quality: Array
    """[n], how right the prediction was: 0 or 1, or a share of it for label sets."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One number of both, and B less A with its interval from resampled rows. Undefined numbers are NaN."""

    name: str
    meaning: str
    a: float
    b: float
    difference: float
    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class HeadToHead:
    """How A, the current one, and B, the shadow, do on the same rows. Below 0, a difference means less of it for B."""

    n: int
    differences: Sequence[Difference]
    flips: DecisionFlips
    answered_and_right: McNemar
    """Of "was answered, and nothing about the answer was wrong": what is held counts as not right for either."""

    wrong_a: int
    wrong_b: int
    """Answered rows that were not quite right. Of very few an interval from resampled rows means little, and of none
    it has no width (METHODS 9.3)."""

    replicates: int
    seed: int

    def as_json(self) -> dict[str, Any]:
        """The numbers, with None for what is undefined."""
        document: dict[str, Any] = _without_nan(asdict(self))
        return document


def head_to_head(a: Contender, b: Contender, *, replicates: int = REPLICATES, seed: int = SEED) -> HeadToHead:
    """Compare row by row. Every row counts once: what is found carries over to other rows only as far as these were
    labelled irrespective of how the prediction turned out."""
    for name, one in (("a", a), ("b", b)):
        unit_interval(f"confidence of {name}", one.confidence)
        unit_interval(f"quality of {name}", one.quality)
    n = same_length(
        answered_by_a=a.answered, answered_by_b=b.answered, of_a=a.confidence, of_b=b.confidence,
        quality_of_a=a.quality, quality_of_b=b.quality,
    )  # fmt: skip
    if any(one.answered.dtype != bool for one in (a, b)):
        raise InvalidInput("answered is a list of true and false")
    columns = np.hstack([_columns(a), _columns(b)])
    values = _both(columns.sum(axis=0)[np.newaxis])[0]
    drawn = resampled(columns, _both, rng=np.random.default_rng(seed), replicates=replicates)
    differences = []
    for at, (name, meaning) in enumerate(MEANINGS.items()):
        of_a, of_b = float(values[at]), float(values[at + len(MEANINGS)])
        interval = percentile_interval(drawn[:, at + len(MEANINGS)] - drawn[:, at])
        differences.append(
            Difference(
                name=name,
                meaning=meaning,
                a=of_a,
                b=of_b,
                difference=of_b - of_a,
                lower=interval.lower,
                upper=interval.upper,
            )
        )
    return HeadToHead(
        n=n,
        differences=differences,
        flips=flips_of(a.answered, b.answered, 1 - a.quality, 1 - b.quality, np.ones(n)),
        answered_and_right=mcnemar(a.answered & (a.quality == 1), b.answered & (b.quality == 1)),
        wrong_a=int((a.quality[a.answered] < 1).sum()),
        wrong_b=int((b.quality[b.answered] < 1).sum()),
        replicates=replicates,
        seed=seed,
    )


def _columns(one: Contender) -> Array:
    """[n, 5 + BINS], what each row adds to the sums that every number here is made of."""
    gap = one.quality - one.confidence
    in_bin = bin_numbers(one.confidence, BINS, "left")[:, np.newaxis] == np.arange(BINS)
    return np.column_stack(
        [
            np.ones(len(gap)),
            one.answered,
            one.answered * (1 - one.quality),
            one.quality,
            np.square(gap),
            in_bin * gap[:, np.newaxis],
        ]
    ).astype(np.float64)


def _both(sums: Array) -> Array:
    """[b, 2 x 5] from the sums [b, 2 x (5 + BINS)] of A and then of B."""
    return np.hstack([_numbers(part) for part in np.split(sums, 2, axis=1)])


def _numbers(sums: Array) -> Array:
    """[b, 5], in the order of `MEANINGS`."""
    n, answered, lost, right, squared = sums[:, :5].T
    with np.errstate(invalid="ignore"):  # nothing answered: the NaN that is meant
        risk = lost / answered
    return np.column_stack([answered / n, risk, right / n, np.abs(sums[:, 5:]).sum(axis=1) / n, squared / n])


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and isnan(value) else value
