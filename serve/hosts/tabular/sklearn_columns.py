"""The columns that a fitted pipeline of scikit-learn takes, read from its own parts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from demur.serve.config.input import ColumnConfig
from demur.serve.contract.inputs import Cell
from demur.serve.hosts.tabular.columns import OwnColumns

WRAPPED_IN = ("best_estimator_", "estimator_")
"""Where an estimator keeps the fitted one that it hands rows to as they are."""


@dataclass(frozen=True, kw_only=True)
class ColumnUse:
    """How one part of a pipeline uses a column."""

    config: ColumnConfig
    example: Cell = None


def takes_texts(estimator: Any) -> bool:
    """Whether it takes a list of texts, and no table."""
    steps = _steps(estimator)
    return bool(steps) and _is_of_texts(steps[0])


def own_columns(estimator: Any) -> OwnColumns | None:
    """Return the columns that a fitted estimator takes; None where it does not tell them.

    Encoders tell the categories, vectorizers that a column is a text. A value may be missing where an imputer or a
    model that knows missing values takes it. Whatever is not known to be something else is a number, or true or
    false.
    """
    names, are_named = _names(estimator)
    if names is None:
        return None
    found: dict[str, ColumnUse] = {}
    for name, use in _uses(_steps(estimator), names):
        found[name] = _both(found[name], use) if name in found else use
    used = [name for name in names if name in found] if are_named else names
    return OwnColumns(
        columns={name: found[name].config if name in found else ColumnConfig(kind="numeric") for name in used},
        are_named=are_named,
        examples={name: found[name].example for name in used if name in found and found[name].example is not None},
    )


def misses_with_none(estimator: Any) -> frozenset[str]:
    """Return the columns in which None stands for a missing text; in all others it is NaN, as pandas has it."""
    names, _ = _names(estimator)
    found = set()
    for name, chain in _chains(_steps(estimator), names or []):
        for step, at in chain:
            if _is_imputer(step) and getattr(step, "missing_values", np.nan) is None:
                found.add(name)
            categories = getattr(step, "categories_", None)
            if categories is not None and at < len(categories) and any(one is None for one in categories[at]):
                found.add(name)
    return frozenset(found)


Chain = Sequence[tuple[Any, int]]
"""The steps that a column goes through, each with the place of the column among those that come to it."""


def _names(estimator: Any) -> tuple[list[str] | None, bool]:
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and all(isinstance(name, str) for name in names):
        return [str(name) for name in names], True
    number = getattr(estimator, "n_features_in_", None)
    if number is None and (steps := _steps(estimator)):
        number = getattr(steps[0], "n_features_in_", None)
    return (None, False) if number is None else ([f"x{at}" for at in range(number)], False)


def _steps(estimator: Any) -> list[Any]:
    """What rows go through, one after another, the classifier last."""
    if isinstance(estimator, Pipeline):
        parts = [step for _, step in estimator.steps if step is not None and not isinstance(step, str)]
        return [*(one for part in parts[:-1] for one in _steps(part)), *(_steps(parts[-1]) if parts else [])]
    calibrated = getattr(estimator, "calibrated_classifiers_", None)
    if calibrated:
        return _steps(calibrated[0].estimator)
    if isinstance(estimator, FrozenEstimator):
        return _steps(estimator.estimator)
    if not hasattr(estimator, "transform"):
        for name in WRAPPED_IN:
            if (inner := getattr(estimator, name, None)) is not None and hasattr(inner, "fit"):
                return _steps(inner)
    return [estimator]


def _uses(steps: Sequence[Any], names: Sequence[str]) -> Iterator[tuple[str, ColumnUse]]:
    for name, chain in _chains(steps, names):
        yield name, _use(chain)


def _chains(steps: Sequence[Any], names: Sequence[str]) -> Iterator[tuple[str, Chain]]:
    """Every column that is used, with the steps that it goes through; a column may be used twice."""
    if not steps:
        return
    first, rest = steps[0], [(step, 0) for step in steps[1:]]
    if not isinstance(first, ColumnTransformer):
        for at, name in enumerate(names):
            yield name, [(step, at) for step in steps]
        return
    for _, part, columns in first.transformers_:
        if isinstance(part, str) and part == "drop":
            continue
        own = [] if isinstance(part, str) else _steps(part)
        for at, name in enumerate(_selected(columns, names)):
            yield name, [*((step, at) for step in own), *rest]


def _selected(columns: Any, names: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice) and any(isinstance(end, str) for end in (columns.start, columns.stop)):
        start = 0 if columns.start is None else names.index(columns.start)
        return list(names[start : None if columns.stop is None else names.index(columns.stop) + 1])
    if not isinstance(columns, slice):
        listed = np.atleast_1d(np.asarray(columns)).tolist()
        if all(isinstance(one, str) for one in listed):
            return [str(one) for one in listed]
    return [str(name) for name in np.atleast_1d(np.asarray(names, dtype=object)[columns])]


def _use(chain: Chain) -> ColumnUse:
    missing = None  # not known yet
    for step, at in chain:
        if _is_of_texts(step):
            return ColumnUse(config=ColumnConfig(kind="text"), example="a text")
        categories = getattr(step, "categories_", None)
        if categories is not None and at < len(categories):
            return _encoded(list(categories[at]), step, imputed=bool(missing))
        if missing is None and _is_imputer(step):
            missing = True
        elif missing is None and not _lets_nan_through(step):
            missing = False
    return ColumnUse(config=ColumnConfig(kind="numeric", missing=missing is not False))


def _encoded(values: list[Any], step: Any, *, imputed: bool) -> ColumnUse:
    """A column whose values an encoder knows."""
    absent = [one for one in values if one is None or (isinstance(one, float) and math.isnan(one))]
    known = [one for one in values if not any(one is gone for gone in absent)]
    missing = imputed or bool(absent)
    if known and all(isinstance(one, str) for one in known):
        texts = tuple(str(one) for one in known)
        unknown = "refuse" if getattr(step, "handle_unknown", "ignore") == "error" else "keep"
        config = ColumnConfig(kind="category", values=texts, missing=missing, unknown=unknown)  # type: ignore[arg-type]
        return ColumnUse(config=config, example=texts[0])
    if known and all(isinstance(one, bool | np.bool_) for one in known):
        return ColumnUse(config=ColumnConfig(kind="boolean", missing=missing), example=float(known[0]))
    if known and all(isinstance(one, int | float | np.number) for one in known):
        return ColumnUse(config=ColumnConfig(kind="numeric", missing=missing), example=float(known[0]))
    return ColumnUse(config=ColumnConfig(kind="numeric", missing=missing))


def _both(one: ColumnUse, other: ColumnUse) -> ColumnUse:
    """A column that two parts use: what both of them take."""
    more = one if one.config.kind != "numeric" else other
    config = more.config.model_copy(update={"missing": one.config.missing and other.config.missing})
    return ColumnUse(config=config, example=more.example)


def _is_of_texts(step: Any) -> bool:
    tags = _input_tags(step)
    return tags is not None and tags.string and not tags.two_d_array


def _is_imputer(step: Any) -> bool:
    return type(step).__module__.startswith("sklearn.impute")


def _lets_nan_through(step: Any) -> bool:
    tags = _input_tags(step)
    return tags is not None and tags.allow_nan


def _input_tags(step: Any) -> Any:
    try:
        return get_tags(step).input_tags
    except (AttributeError, TypeError):  # of a library that knows no tags
        return None
