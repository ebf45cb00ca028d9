"""Two artifacts of one model on the same rows: every number twice, and what is between them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.calibration import bin_numbers
from demur.audit.metrics.comparison import DecisionFlips, McNemar, flips_of, mcnemar
from demur.audit.metrics.resampling import REPLICATES, percentile_interval, resampled
from demur.audit.metrics.sampling import LabelDraw
from demur.uncertainty.checks import Array, InvalidInput, Mask, same_length, unit_interval

SEED = 0
BINS = 15
SUMS = 7

MEANINGS = {
    "coverage": "share that is answered",
    "selective_risk": "mean loss among the answered: the share of wrong answers",
    "accuracy": "mean quality of all predictions, answered or not",
    "ece": "gap of confidence and share right, over 15 equal intervals",
    "brier": "mean squared gap of confidence and outcome",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Contender:
    """What one artifact makes of `n` rows. Confidence and quality are read, and known, where a label counts."""

    answered: Mask
    confidence: Array
    """[n], calibrated."""

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
    n_labelled: int
    """Rows whose label counts. Coverage is that of all rows; every other number is of these, by their weights."""

    differences: Sequence[Difference]
    flips: DecisionFlips
    answered_and_right: McNemar | None
    """Of "was answered, and nothing about the answer was wrong": what is held counts as not right for either. None
    where labels came with different probabilities, for which there is no such test."""

    wrong_a: int
    wrong_b: int
    """Answered and labelled rows that were not quite right. Of very few an interval from resampled rows means little,
    and of none it has no width (METHODS 9.3)."""

    replicates: int
    seed: int

    def as_json(self) -> dict[str, Any]:
        """The numbers, with None for what is undefined."""
        document: dict[str, Any] = without_nan(asdict(self))
        return document


def head_to_head(
    a: Contender, b: Contender, draw: LabelDraw | None = None, *, replicates: int = REPLICATES, seed: int = SEED
) -> HeadToHead:
    """Compare row by row. Without a `draw` every row is labelled and counts once: what is found carries over to other
    rows only as far as these were labelled irrespective of how the prediction turned out."""
    n = same_length(
        answered_by_a=a.answered, answered_by_b=b.answered, of_a=a.confidence, of_b=b.confidence,
        quality_of_a=a.quality, quality_of_b=b.quality,
    )  # fmt: skip
    if any(one.answered.dtype != bool for one in (a, b)):
        raise InvalidInput("answered is a list of true and false")
    draw = draw or LabelDraw(weights=np.ones(n), common=True)
    same_length(answered=a.answered, weights=draw.weights)
    known = draw.weights > 0
    if known.any():
        for name, one in (("a", a), ("b", b)):
            unit_interval(f"confidence of {name}", one.confidence[known])
            unit_interval(f"quality of {name}", one.quality[known])
    a, b = (_read_where(known, one) for one in (a, b))
    columns = np.hstack([_columns(a, draw.weights), _columns(b, draw.weights)])
    values = _both(columns.sum(axis=0)[np.newaxis])[0]
    once, alike = _without_repeats(known, a.answered, b.answered)
    drawn = resampled(columns[once], _both, rng=np.random.default_rng(seed), replicates=replicates, alike=alike)
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
        n_labelled=int(known.sum()),
        differences=differences,
        flips=flips_of(a.answered, b.answered, 1 - a.quality, 1 - b.quality, draw.weights),
        answered_and_right=_mcnemar(a, b, known) if draw.common and known.any() else None,
        wrong_a=int((a.quality[a.answered & known] < 1).sum()),
        wrong_b=int((b.quality[b.answered & known] < 1).sum()),
        replicates=replicates,
        seed=seed,
    )


def _read_where(known: Mask, one: Contender) -> Contender:
    """Return a contender with 0 where nothing is to be read."""
    return Contender(
        answered=one.answered,
        confidence=np.where(known, one.confidence, 0.0),
        quality=np.where(known, one.quality, 0.0),
    )


def _without_repeats(known: Mask, a: Mask, b: Mask) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows that differ, and where among them each row [n] is found: without a label there are only four kinds."""
    kind = np.where(known, np.arange(len(known)) + 4, 2 * a + b)
    _, once, alike = np.unique(kind, return_index=True, return_inverse=True)
    return once, alike


def _mcnemar(a: Contender, b: Contender, known: Mask) -> McNemar:
    right = [(one.answered & (one.quality == 1))[known] for one in (a, b)]
    return mcnemar(right[0], right[1])


def _columns(one: Contender, weights: Array) -> Array:
    """[n, SUMS + BINS], what each row adds to the sums that every number here is made of."""
    gap = one.quality - one.confidence
    in_bin = bin_numbers(one.confidence, BINS, "left")[:, np.newaxis] == np.arange(BINS)
    return np.column_stack(
        [
            np.ones(len(gap)),
            one.answered,
            weights,
            weights * one.answered,
            weights * one.answered * (1 - one.quality),
            weights * one.quality,
            weights * np.square(gap),
            in_bin * (weights * gap)[:, np.newaxis],
        ]
    ).astype(np.float64)


def _both(sums: Array) -> Array:
    """[b, 2 x 5] from the sums [b, 2 x (SUMS + BINS)] of A and then of B."""
    return np.hstack([_numbers(part) for part in np.split(sums, 2, axis=1)])


def _numbers(sums: Array) -> Array:
    """[b, 5], in the order of `MEANINGS`."""
    n, answered, labelled, labelled_answered, lost, right, squared = sums[:, :SUMS].T
    with np.errstate(invalid="ignore"):  # no label, or none among the answered: the NaN that is meant
        risk, gap = lost / labelled_answered, np.abs(sums[:, SUMS:]).sum(axis=1) / labelled
        return np.column_stack([answered / n, risk, right / labelled, gap, squared / labelled])


def without_nan(value: Any) -> Any:
    """Return a value with None in the place of NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {name: without_nan(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and isnan(value) else value
