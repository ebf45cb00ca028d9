"""Whether sets of options hold the truth, and how large they have to be for it (METHODS 5.5)."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.categories import grouped
from demur.uncertainty.checks import Array, InvalidInput, Mask, finite, same_length
from demur.uncertainty.tally import per_row


@dataclass(frozen=True, kw_only=True)
class SetSummary:
    """Shares and means over `n` rows. The last two are None when the votes are not known."""

    n: int
    coverage: float
    """Share of sets that hold the truth."""

    average_set_size: float
    empty_rate: float
    singleton_rate: float
    majority_vote_accuracy: float | None = None
    """Share of rows whose most frequent option is the truth, ties to the lowest index."""

    hit_rate: float | None = None
    """Share of rows in which the truth was sampled at least once. It bounds coverage only while the conformal
    threshold is below 1: from there on sets hold options that were never sampled."""


@dataclass(frozen=True, kw_only=True)
class SetMetrics:
    overall: SetSummary
    groups: Mapping[Hashable, SetSummary] | None = None


def set_metrics(sets: Any, truth: Any, *, counts: Any = None, groups: Any = None) -> SetMetrics:
    """Summarise `n` prediction sets, all together and per group.

    `sets` are n lists of options, or a boolean array [n, K]; `truth` [n] the right option. `counts` [n, K], if given,
    are the votes for each option, and options are then indices below K. `groups` [n] are names.
    """
    votes = None if counts is None else _votes(counts)
    sizes, covered = membership(sets, truth, None if votes is None else votes.shape[1])
    columns = {
        "coverage": covered,
        "average_set_size": sizes,
        "empty_rate": sizes == 0,
        "singleton_rate": sizes == 1,
    }
    if votes is not None:
        same_length(sets=sizes, counts=votes)
        right = _indices("truth", truth, votes.shape[1])
        columns["majority_vote_accuracy"] = votes.argmax(axis=1) == right
        columns["hit_rate"] = votes[np.arange(len(right)), right] > 0
    overall = SetSummary(n=len(sizes), **{name: float(values.mean()) for name, values in columns.items()})
    return SetMetrics(overall=overall, groups=None if groups is None else _by_group(groups, columns))


def _by_group(groups: Any, columns: Mapping[str, NDArray[Any]]) -> dict[Hashable, SetSummary]:
    codes, names = grouped("groups", groups)
    same_length(sets=columns["coverage"], groups=codes)
    sizes = np.bincount(codes)
    means = {name: np.bincount(codes, weights=values) / sizes for name, values in columns.items()}
    return {
        group: SetSummary(n=int(sizes[i]), **{name: float(values[i]) for name, values in means.items()})
        for i, group in enumerate(names)
    }


def _votes(counts: Any) -> Array:
    votes = finite("counts", counts, ndim=2)
    if votes.min() < 0 or not (votes == np.floor(votes)).all():
        raise InvalidInput("counts holds something other than whole numbers from 0 on")
    return votes


def membership(sets: Any, truth: Any, n_options: int | None) -> tuple[NDArray[np.intp], Mask]:
    """How many options each set has, and whether the truth is one of them."""
    if isinstance(sets, np.ndarray) and sets.dtype == bool and sets.ndim == 2:
        if n_options not in (None, sets.shape[1]):
            raise InvalidInput(f"sets has {sets.shape[1]} options, counts {n_options}")
        right = _indices("truth", truth, sets.shape[1])
        same_length(sets=sets, truth=right)
        return per_row(sets), sets[np.arange(len(right)), right]
    if isinstance(sets, str | bytes | Mapping) or isinstance(truth, str | bytes | Mapping):
        raise InvalidInput("sets and truth are not lists")
    try:
        options = truth.tolist() if isinstance(truth, np.ndarray) else list(truth)
        rows = [_options(row) for row in sets]
        if same_length(sets=rows, truth=options) == 0:
            raise InvalidInput("sets is empty")
        covered = [option in row for option, row in zip(options, rows, strict=True)]
    except TypeError as error:
        raise InvalidInput(f"sets is not a list of option lists, or truth not a list of options: {error}") from None
    if any(option is None or option != option for option in options):
        raise InvalidInput("truth holds NaN or nothing")
    if n_options is not None and not frozenset().union(*rows) <= frozenset(range(n_options)):
        raise InvalidInput(f"sets has an option that is not an index in 0..{n_options - 1}")
    return np.array([len(row) for row in rows], dtype=np.intp), np.array(covered, dtype=bool)


def _options(row: Any) -> frozenset[Any]:
    if isinstance(row, str | bytes | Mapping):
        raise InvalidInput(f"sets has {row!r} in the place of a list of options")
    options = row.tolist() if isinstance(row, np.ndarray) else list(row)
    unique = frozenset(options)
    if len(unique) < len(options):
        raise InvalidInput(f"sets has the set {options} with the same option twice")
    if any(option is None or option != option for option in unique):
        raise InvalidInput("sets holds NaN or nothing in the place of an option")
    return unique


def _indices(name: str, values: Any, n_options: int) -> NDArray[np.intp]:
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise InvalidInput(f"{name} is not a list of option indices")
    if array.min() < 0 or array.max() >= n_options:
        raise InvalidInput(f"{name} has an index outside 0..{n_options - 1}")
    return array.astype(np.intp, copy=False)
