"""A metric per group, each with its n: an average over groups would hide the group that fails (METHODS 5.5)."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.calibration import brier, citl, ece, nll
from demur.audit.metrics.categories import from_list, grouped
from demur.audit.metrics.discrimination import error_roc_auc, roc_auc
from demur.audit.metrics.predictive_quality import macro_f1
from demur.audit.metrics.selective import n_rc_auc, prr, rc_auc
from demur.uncertainty.checks import InvalidInput, one_of, same_length, whole_number

METRICS: dict[str, Callable[..., float]] = {
    "ece": ece,
    "brier": brier,
    "nll": nll,
    "citl": citl,
    "roc_auc": roc_auc,
    "error_roc_auc": error_roc_auc,
    "rc_auc": rc_auc,
    "n_rc_auc": n_rc_auc,
    "prr": prr,
    "macro_f1": macro_f1,
}


@dataclass(frozen=True, kw_only=True)
class GroupValue:
    """The metric over the `n` rows of one group; NaN when undefined, or when the group is too small."""

    n: int
    value: float


def groupwise(metric: str, groups: Any, inputs: Mapping[str, Any], *, min_n: int = 1) -> dict[Hashable, GroupValue]:
    """Return `metric` for each name in `groups` [n], in the order in which they first appear.

    `inputs` are the metric's arguments: lists and arrays [n] are split by group, anything else is passed on. A group
    of fewer than `min_n` rows gets NaN; its rows are checked all the same.
    """
    one_of("metric", metric, tuple(METRICS))
    function, least = METRICS[metric], whole_number("min_n", min_n, least=1)
    codes, names = grouped("groups", groups)
    columns, options = split_inputs(function, inputs)
    same_length(groups=codes, **columns)
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    values = {}
    for name, rows in zip(names, parts, strict=True):
        value = function(**{key: column[rows] for key, column in columns.items()}, **options)
        values[name] = GroupValue(n=len(rows), value=value if len(rows) >= least else np.nan)
    return values


def split_inputs(
    function: Callable[..., float], inputs: Mapping[str, Any]
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The inputs that have one entry a row, and the others."""
    try:
        signature(function).bind(**inputs)
    except TypeError as error:
        raise InvalidInput(f"inputs do not fit {function.__name__}: {error}") from None
    columns = {
        name: values if isinstance(values, np.ndarray) else from_list(name, values)
        for name, values in inputs.items()
        if isinstance(values, list | tuple | np.ndarray)
    }
    return columns, {name: value for name, value in inputs.items() if name not in columns}
