"""Columns of a stream of predictions of which some are unknown: what is not there is None."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput, finite, same_length, unit_interval


def confidences(values: Any) -> list[float]:
    """Return [T] confidences in [0, 1], one at least; NaN for one that is None."""
    found = known_or_nan("confidence", values, unit_interval)
    if not found:
        raise InvalidInput("confidence is empty")
    return found


def known_or_nan(name: str, values: Any, check: Callable[[str, Any], Array] = finite) -> list[float]:
    """Return [T] checked numbers, NaN for those that are None."""
    column = _list(name, values)
    known = np.array([value is not None for value in column], dtype=bool)
    found = np.full(len(column), np.nan)
    if known.any():
        found[known] = check(name, [value for value in column if value is not None])
    return list(found.tolist())


def drawn_values(
    name: str, values: Any, weights: Any, check: Callable[[str, Any], Array]
) -> tuple[list[float], list[float]]:
    """Return [T] values, checked where there is a weight above 0 and else 0 without being read; and the weights."""
    column, drawn = _list(name, values), _list("weights", weights)
    same_length(**{name: column, "weights": drawn})
    w = finite("weights", drawn) if drawn else np.empty(0)
    if (w < 0).any():
        raise InvalidInput("weights holds a number below 0")
    known, found = w > 0, np.zeros(len(w))
    if known.any():
        found[known] = check(name, [value for value, here in zip(column, known.tolist(), strict=True) if here])
    return list(found.tolist()), list(w.tolist())


def _list(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {values!r}, not a list")
    try:
        return list(values.tolist() if isinstance(values, np.ndarray) else values)
    except TypeError:  # an array without an axis
        raise InvalidInput(f"{name} is {values!r}, not a list") from None
