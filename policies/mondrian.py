"""Prediction sets that keep their promise in every group, not only on average (Vovk et al. 2005, Mondrian sets)."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from demur.policies.conformal import Method, conformal_quantile
from demur.uncertainty.checks import InvalidInput, finite, real_number, same_length


def mondrian_quantiles(
    scores: Any, groups: Sequence[Hashable], alpha: float, *, method: Method = "finite"
) -> dict[Hashable, float]:
    """Return the conformal quantile of the `scores` [n] of each group, in the order in which groups appear.

    Inputs of a group then miss the truth with probability at most `alpha`, if later inputs of that group are drawn
    like these. A group with fewer than ceil(1 / alpha) - 1 rows gets +inf under the finite rank: its sets are full.
    """
    values, names = finite("scores", scores), _names(groups)
    same_length(scores=values, groups=names)
    rows: dict[Hashable, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return {name: conformal_quantile(values[members], alpha, method=method) for name, members in rows.items()}


def mondrian_sets(
    option_scores: Any,
    groups: Sequence[Hashable],
    quantiles: Mapping[Any, float],
    *,
    unseen: Literal["full", "raise"] = "full",
) -> list[list[int]]:
    """Return, for each row of `option_scores` [n, C], the options with score <= the quantile of its group.

    Nothing is known about a group that was not calibrated: its sets are full, or it is refused with `unseen="raise"`.
    """
    rows, names = finite("option_scores", option_scores, ndim=2), _names(groups)
    same_length(option_scores=rows, groups=names)
    limits = {name: real_number(f"the quantile of {name!r}", value, infinite=True) for name, value in quantiles.items()}
    if unseen not in ("full", "raise"):
        raise InvalidInput(f"unseen is {unseen!r}; it is 'full' or 'raise'")
    strange = [name for name in names if name not in limits]
    if strange and unseen == "raise":
        raise InvalidInput(f"group {strange[0]!r} was not calibrated; known are: {', '.join(map(repr, limits))}")
    return [np.flatnonzero(row <= limits.get(name, np.inf)).tolist() for row, name in zip(rows, names, strict=True)]


def _names(groups: Any) -> list[Hashable]:
    if isinstance(groups, str) or not isinstance(groups, Sequence | np.ndarray):
        raise InvalidInput("groups is not a list with the group of each row")
    names = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    for name in names:
        if not isinstance(name, Hashable) or name != name:  # NaN, which is no name
            raise InvalidInput(f"groups holds {name!r}, which cannot name a group")
    return names
