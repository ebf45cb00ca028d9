"""Rows of which only some have a label, each drawn with a known probability (METHODS 9).

`weights` [n] are 1 / probability where a record has a label and 0 where it has none: what would be known of a row
without a label is never read, and may be None.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    Mask,
    finite,
    outcomes,
    real_number,
    same_length,
    unit_interval,
)

Column = Sequence[Any] | NDArray[Any]

SMALLEST = float(np.finfo(np.float64).tiny)
"""One divided by anything smaller may leave the range of floats."""


def row_weights(values: Any) -> Array:
    """Return `values` as float64, none below 0."""
    w = finite("weights", values)
    if w.min() < 0:
        raise InvalidInput("weights holds a number below 0")
    return w


def relative(weights: Any) -> Array:
    """Return checked weights [n] over the largest of them, so that no sum leaves the range of floats; 0 without a
    label. Weights of which one is as good as nothing beside another raise: no sum could hold both."""
    w = row_weights(weights)
    largest = w.max()
    if largest == 0:
        return w
    shares = w / largest
    if (shares[w > 0] < SMALLEST).any():
        raise InvalidInput("weights differ by more than 300 orders of magnitude")
    return np.asarray(shares)


def known_values(
    name: str, values: Any, weights: Array, check: Callable[[str, Any], Array] = finite, **columns: Sized
) -> Array:
    """Return [n]: `values` where a row has a label, `check`ed; 0 elsewhere, where they are not read.

    `columns` are other things of the same length.
    """
    rows = column_of(name, values)
    n = same_length(**{name: rows}, **columns, weights=weights)
    known = weights > 0
    found = np.zeros(n)
    if known.any():
        found[known] = check(name, at(rows, known))
    return found


def label_draw(labelled: Any, probability: Any) -> tuple[Mask, Array]:
    """Return which rows have a label, and the probability of each to get one.

    A record that could never be labelled has no place in a weighted audit: probability 0 raises.
    """
    known, chance = outcomes("labelled", labelled) == 1, unit_interval("probability", probability)
    same_length(labelled=known, probability=chance)
    if chance.min() < SMALLEST:
        raise InvalidInput("probability holds 0: such a record could never be labelled")
    return known, chance


def least_probability(floor: Any, chance: Array) -> float:
    """Return `floor`, the least label probability that was declared in advance; no row may have less."""
    least = real_number("floor", floor, least=SMALLEST)
    if least > 1:
        raise InvalidInput(f"floor is {least}, above 1")
    if len(chance) and chance.min() < least:
        raise InvalidInput(f"probability holds {chance.min():g}, below the declared floor of {least:g}")
    return least


def column_of(name: str, values: Any) -> Column:
    """One value for each record, not looked at yet."""
    if isinstance(values, np.ndarray) and values.ndim:
        return values
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {values!r}, not a list")
    try:
        return list(values)
    except TypeError:  # an array without an axis
        raise InvalidInput(f"{name} is {values!r}, not a list") from None


def at(values: Column, rows: Mask) -> Column:
    """The values of some rows."""
    if isinstance(values, np.ndarray):
        return values[rows]
    return [value for value, inside in zip(values, rows.tolist(), strict=True) if inside]


def labelled_values(name: str, values: Any, weights: Any) -> tuple[Array, Array]:
    """Return the finite values and the weights of the rows with a label, of which there may be none."""
    w, rows = row_weights(weights), column_of(name, values)
    same_length(**{name: rows, "weights": w})
    known = w > 0
    return finite(name, at(rows, known)) if known.any() else np.empty(0), w[known]


def mean_of(values: Array, weights: Array) -> float:
    """The weighted mean, NaN without a label."""
    if not (weights > 0).any():
        return np.nan
    share = weights / weights.max()  # so that neither tiny nor huge weights leave the range of floats
    return float(values @ share / share.sum())


def weighted_mean(values: Any, weights: Any) -> float:
    """sum w v / sum w over the rows with a label: accuracy, risk, any loss of a record. NaN without a label."""
    return mean_of(*labelled_values("values", values, weights))
