"""What every formula asks of its input: finite numbers, real probabilities, outcomes that are 0 or 1.

Bad input raises; a value that is undefined on good input is NaN. Nothing is dropped or repaired silently.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from math import inf, isinf, isnan
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

ROW_SUM_TOLERANCE = 1e-6

HUNDRED = 100.0
PERCENT_SLACK = 2.0
"""By how much percentages that are rounded may miss 100."""


class InvalidInput(ValueError):
    """The numbers break a rule of the formula. The message names the argument and the rule."""


class UnknownScore(InvalidInput):
    """A score has no value in any row, so nothing can be fitted on it. Choose another one, or see that the model gives
    what it reads."""


def finite(name: str, values: Any, *, ndim: int = 1) -> Array:
    """Return `values` as float64 with `ndim` axes; raise if it is empty, ragged, NaN or infinite anywhere."""
    array = _numbers(name, values, ndim)
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} holds NaN or infinity")
    return array


def _numbers(name: str, values: Any, ndim: int) -> Array:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO" or (
            array.dtype.kind == "O" and any(isinstance(value, str | bytes) for value in array.flat)
        ):  # text, of which NumPy would make numbers where it can, or complex numbers, of which it would take a part
            raise ValueError("it holds something else")
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"{name} is not a rectangular array of numbers: {error}") from None
    if array.ndim != ndim:
        raise InvalidInput(f"{name} has {array.ndim} axes, not {ndim}")
    if array.size == 0:
        raise InvalidInput(f"{name} is empty")
    return array


def unit_interval(name: str, values: Any, *, ndim: int = 1) -> Array:
    """Return `values` as float64, each in [0, 1]."""
    array = _numbers(name, values, ndim)
    if not (array.min() >= 0 and array.max() <= 1):  # also NaN, which both hand on
        raise InvalidInput(f"{name} has a value outside [0, 1], or NaN")
    return array


def probability_rows(name: str, values: Any, *, ndim: int = 2) -> Array:
    """Return class probabilities whose last axis sums to 1; rows are checked, never renormalised."""
    array = unit_interval(name, values, ndim=ndim)
    if np.abs(array.sum(axis=-1) - 1).max() > ROW_SUM_TOLERANCE:
        raise InvalidInput(f"{name} has a row that does not sum to 1")
    return array


def outside_in_words(row: Array, *, exclusive: bool) -> str:
    """Return what to say of numbers [labels] that are no probabilities, since one is not between 0 and 1, and what they
    may be. `exclusive`: one label of the row is right."""
    told = "a probability is not between 0 and 1"
    hundred = abs(row.sum() - HUNDRED) <= PERCENT_SLACK if exclusive else (row.max() > PERCENT_SLACK)
    if hundred and row.min() >= 0 and row.max() <= HUNDRED:
        return f"{told}; divide percentages by 100"
    return f"{told}; if these come before the softmax or the sigmoid, give them as `logits`"


def outcomes(name: str, values: Any, *, ndim: int = 1) -> Array:
    """Return 0/1 outcomes as float64; anything else raises."""
    array = _numbers(name, values, ndim)
    if not ((array == 0) | (array == 1)).all():
        raise InvalidInput(f"{name} holds something other than 0 and 1")
    return array


def degrees(name: str, values: Any) -> Array:
    """Return finite numbers that say how right, or how wrong, each row is: 0 and 1, or measures such as 0.25.

    Whole numbers other than these are mostly the labels of rows, of which a metric would make a number without meaning:
    they are taken only as floating point.
    """
    array = finite(name, values)
    no_labels(name, values, array)
    return array


def no_labels(name: str, values: Any, array: Array) -> None:
    """Raise where `values`, read as `array`, are whole numbers and not all 0 or 1."""
    if np.asarray(values).dtype.kind not in "iu":
        return
    stray = array[(array != 0) & (array != 1)]
    if stray.size:
        raise InvalidInput(
            f"{name} has the whole number {stray[0]:g}, which looks like a label; give 1 or 0 for each row, such as"
            " `labels == predicted`, or floating point where it measures how right or wrong a row is"
        )


def class_indices(name: str, values: Any, *, classes: int) -> NDArray[np.intp]:
    """Return `values` [n] as indices of classes: whole numbers from 0 to `classes` - 1."""
    index = finite(name, values)
    if (index != np.floor(index)).any() or index.min() < 0 or index.max() >= classes:
        raise InvalidInput(f"{name} holds something other than whole numbers from 0 to {classes - 1}")
    return index.astype(np.intp)


def same_length(**arrays: Sized) -> int:
    """Return the common length of the named arrays."""
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise InvalidInput("lengths differ: " + ", ".join(f"{name} {n}" for name, n in lengths.items()))
    return next(iter(lengths.values()))


def fraction(name: str, value: Any, *, open_low: bool = False, open_high: bool = False) -> float:
    """Return `value` if it lies in [0, 1], ends excluded where asked."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInput(f"{name} is {value!r}, not a number")
    above = value > 0 if open_low else value >= 0
    below = value < 1 if open_high else value <= 1
    if not (above and below):
        raise InvalidInput(f"{name} is {value}, outside {'(' if open_low else '['}0, 1{')' if open_high else ']'}")
    return float(value)


def snapped_ceil(x: float) -> int:
    """ceil, except that a product within rounding of a whole number is that number (0.07 * 100 is 7)."""
    nearest = round(x)
    return nearest if abs(x - nearest) <= 1e-9 * max(1.0, abs(x)) else int(np.ceil(x))


def snapped_floor(x: float) -> int:
    """floor, except that a product within rounding of a whole number is that number (0.29 * 100 is 29)."""
    nearest = round(x)
    return nearest if abs(x - nearest) <= 1e-9 * max(1.0, abs(x)) else int(np.floor(x))


def whole_number(name: str, value: Any, *, least: int = 0, most: int | None = None) -> int:
    """Return `value` as int if it is a whole number from `least` to `most`; 3.0 and true are not."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidInput(f"{name} is {value!r}, not a whole number")
    number = int(value)
    if number < least or (most is not None and number > most):
        raise InvalidInput(
            f"{name} is {number}; it is at least {least}" + ("" if most is None else f", at most {most}")
        )
    return number


def real_number(name: str, value: Any, *, least: float = -inf, above: float = -inf, infinite: bool = False) -> float:
    """Return `value` as float if it is one number, not NaN, at least `least` and, unless `infinite`, above `above` and
    finite."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidInput(f"{name} is {value!r}, not a number")
    try:
        number = float(value)
    except OverflowError:  # a whole number of more than 308 digits
        number = inf
    if isnan(number) or (isinf(number) and not infinite) or number < least or (number <= above and not infinite):
        raise InvalidInput(f"{name} is {number}, outside its range")
    return number


def one_of(name: str, value: Any, options: Sequence[str]) -> None:
    """Raise unless `value` is one of the words."""
    if not isinstance(value, str) or value not in options:
        raise InvalidInput(f"{name} is {value!r}, not one of: {', '.join(options)}")


def indicators(name: str, values: Any, *, ndim: int = 2) -> Mask:
    """Return 0/1 `values` as booleans, an eighth of the memory of float64; anything else raises."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} is not a rectangular array: {error}") from None
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} holds something other than 0 and 1")
    if array.ndim != ndim:
        raise InvalidInput(f"{name} has {array.ndim} axes, not {ndim}")
    if array.size == 0:
        raise InvalidInput(f"{name} is empty")
    if array.dtype == bool:
        return array
    ones = array == 1
    if not (ones | (array == 0)).all():
        raise InvalidInput(f"{name} holds something other than 0 and 1")
    return np.asarray(ones)


def ascending(name: str, values: Any) -> Array:
    """Return `values` as float64, none below the one before it."""
    array = finite(name, values)
    if (np.diff(array) < 0).any():
        raise InvalidInput(f"{name} is not in ascending order")
    return array


def relative_weights(weights: Any, **rows: Sized) -> Array:
    """Return [n]: how much each of the rows counts, as weights above 0 whose sum is the number of rows of equal weight
    that would tell as much, W^2 / sum w^2 (Kish 1965). Without weights, and with equal ones, each row counts as one.
    """
    n = same_length(**rows)
    if weights is None:
        return np.ones(n)
    w = finite("weights", weights)
    same_length(weights=w, **rows)
    if w.min() <= 0:
        raise InvalidInput("weights must be above 0; leave out rows that stand for nothing")
    if w.min() == w.max():
        return np.ones(n)
    w = w / w.max()  # so that neither tiny nor huge weights leave the range of floats
    return np.asarray(w * (w.sum() / (w @ w)))


def memberships(name: str, values: Any) -> NDArray[np.intp]:
    """Return the number of each row's group, groups being counted in the order in which they first occur.

    A group may have any hashable name but NaN, which is no name: it differs from itself.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {values!r}, not a list")
    names = list(values)
    try:
        order = {value: index for index, value in enumerate(dict.fromkeys(names))}
    except TypeError:
        raise InvalidInput(f"{name} holds something that cannot be a name") from None
    if any(value != value for value in order):
        raise InvalidInput(f"{name} holds NaN")
    return np.array([order[value] for value in names], dtype=np.intp)


def where_known(rows: Array, of: Callable[[Array], Array]) -> Array:
    """Return [n]: what `of` makes of `rows` [n, ...], NaN for a row that holds NaN."""
    known = ~np.isnan(rows).reshape(len(rows), -1).any(axis=1)
    if known.all():
        return of(rows)
    values = np.full(len(rows), np.nan)
    if known.any():
        values[known] = of(rows[known])
    return values
