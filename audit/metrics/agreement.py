"""How far people agree who judged the same items, beyond what chance would give (METHODS 9.6).

1 is full agreement, 0 what chance gives, below 0 less than that. Agreement corrects nothing: two who err together
agree. Where no disagreement is possible, as everybody said the same everywhere, the value is NaN.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from demur.audit.metrics.categories import Codes, encode, grouped
from demur.uncertainty.checks import Array, InvalidInput, finite, one_of

LEVELS = ("nominal", "interval")


def cohen_kappa(a: Any, b: Any) -> float:
    """Return kappa of two people over the same items, [n] labels each; who said what matters (Cohen 1960)."""
    (first, second), kinds = encode(a=a, b=b)
    n, same = len(first), int((first == second).sum())
    by_chance = int(np.bincount(first, minlength=kinds) @ np.bincount(second, minlength=kinds))
    possible = n * n - by_chance
    return (n * same - by_chance) / possible if possible else np.nan


def fleiss_kappa(counts: Any) -> float:
    """Return kappa of counts [items, categories]: how many people chose each (Fleiss 1971).

    Every item has the same number of ratings, at least two; they need not be of the same people.
    """
    table = finite("counts", counts, ndim=2)
    if (table < 0).any() or (table != np.floor(table)).any():
        raise InvalidInput("counts holds something other than whole numbers from 0 on")
    ratings = table[0].sum()
    if (table.sum(axis=1) != ratings).any() or ratings < 2:
        raise InvalidInput("counts needs items of equally many ratings, at least two each")
    if (table.sum(axis=0) > 0).sum() == 1:
        return np.nan
    shares = table.sum(axis=0) / table.sum()
    by_chance = float(shares @ shares)
    agreed = float(((table**2).sum(axis=1) - ratings).mean() / (ratings * (ratings - 1)))
    return (agreed - by_chance) / (1 - by_chance)


def krippendorff_alpha(ratings: Any, level: Any = "nominal") -> float:
    """Return alpha of ratings [items, people], None where somebody did not rate (Krippendorff 2011).

    `nominal` ratings are the same or not, and can be anything that can be told apart; of `interval` ones, numbers, the
    squared distance counts. Items with fewer than two ratings are left out; without any other the value is NaN.
    """
    one_of("level", level, LEVELS)
    values, item = _given(ratings)
    if level == "interval" and values:
        numbers = finite("ratings", values)
    codes = grouped("ratings", values)[0] if values else np.empty(0, dtype=np.intp)
    kept = np.bincount(item)[item] >= 2
    if not kept.any():
        return np.nan
    _, item = np.unique(item[kept], return_inverse=True)
    size = np.bincount(item)
    if level == "interval":
        within, overall = _spread(numbers[kept], item, size)
    else:
        within, overall = _differing(codes[kept], item, size)
    n = len(item)
    observed = float((within / (size - 1)).sum()) / n
    expected = overall / (n * (n - 1))
    return 1 - observed / expected if expected else np.nan


def _given(ratings: Any) -> tuple[list[Any], Codes]:
    """The ratings that there are, and of which item each is."""
    if isinstance(ratings, str | bytes | Mapping) or not isinstance(ratings, Iterable):
        raise InvalidInput(f"ratings is {ratings!r}, not a table of items and people")
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in _listed(ratings)]
    if not rows or not all(isinstance(row, list | tuple) and row for row in rows):
        raise InvalidInput("ratings is not a table of items and people")
    if len({len(row) for row in rows}) != 1:
        raise InvalidInput("ratings has rows of different lengths; where somebody did not rate stands None")
    known = [(value, index) for index, row in enumerate(rows) for value in row if value is not None]
    return [value for value, _ in known], np.array([index for _, index in known], dtype=np.intp)


def _listed(ratings: Iterable[Any]) -> list[Any]:
    try:
        return list(ratings)
    except TypeError:  # an array without an axis
        raise InvalidInput("ratings is not a table of items and people") from None


def _spread(numbers: Array, item: Codes, size: Codes) -> tuple[Array, float]:
    """The squared distances over all ordered pairs: within each item, and altogether; both in one unit of their own."""
    if (numbers == numbers[0]).all():  # whatever rounding would make of it
        return np.zeros(len(size)), 0.0
    share = numbers / np.abs(numbers).max()
    share = share - share.mean()
    share = share / np.abs(share).max()  # so that no square leaves the range of floats
    means = np.bincount(item, share) / size
    within = 2 * size * np.bincount(item, (share - means[item]) ** 2)
    return np.asarray(within), 2 * len(share) * float((share**2).sum())


def _differing(codes: Codes, item: Codes, size: Codes) -> tuple[Array, float]:
    """How many ordered pairs differ: within each item, and altogether."""
    kinds = int(codes.max()) + 1
    cells, together = np.unique(item * kinds + codes, return_counts=True)
    same = np.bincount(cells // kinds, together**2)
    overall = np.bincount(codes)
    return (size**2 - same).astype(np.float64), float(len(codes) ** 2 - overall @ overall)
