"""`host: {kind: lightgbm}`: trees of LightGBM, from its own text format."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from demur.library.class_text import class_text
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.tabular import TableHost
from demur.serve.config.input import ColumnConfig
from demur.serve.contract.model import SyncModel
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.tabular.booster import Booster, BoosterModel, probes, unreadable
from demur.serve.hosts.tabular.columns import OwnColumns
from demur.serve.hosts.tabular.kind import table_host, table_kind
from demur.serve.hosts.tabular.matrix import Codes
from demur.uncertainty.checks import Array

OBJECTIVES = ("binary", "multiclass")
"""Objectives whose predictions are probabilities that come to 1."""

WITHOUT_NAMES = re.compile(r"Column_\d+")

MISSING_IS_NAN = 2
"""In bits 2 and 3 of the type of a decision: the split has learnt what to do with NaN. Else NaN counts as 0."""


WAY_OUT = "save the model again with `model.booster_.save_model('model.txt')`"


def opened(model: ModelConfig) -> SyncModel:
    """Return the model of a file. Raises `BadModel`."""
    return BoosterModel(model, booster_of(table_host(model)))


def booster_of(host: TableHost) -> Booster:
    """Return what a file holds. Raises `BadModel`, and ends the process where a file is damaged in certain ways."""
    import lightgbm

    try:
        booster = lightgbm.Booster(model_file=host.file)
        booster.predict(probes(booster.num_feature()), num_threads=1)
    except (lightgbm.basic.LightGBMError, ValueError, TypeError, UnicodeDecodeError) as error:
        raise unreadable("lightgbm", host.file, error, WAY_OUT) from None
    text = host.file.read_text(encoding="utf-8", errors="replace")
    found = re.search(r"^objective=(\S+)", text, re.M)
    objective = found[1] if found else "none"
    if objective not in OBJECTIVES:
        raise BadModel(
            f"host.file: {host.file} was trained with the objective {objective}, which gives no probabilities that"
            f" come to 1; train it with {' or '.join(OBJECTIVES)}"
        )
    classes = 2 if objective == "binary" else booster.num_model_per_iteration()

    def predict(rows: Array) -> Any:
        told = booster.predict(rows, num_threads=host.threads)
        return np.column_stack([1 - told, told]) if objective == "binary" else told

    columns, codes = _columns(booster, text, host)
    return Booster(columns=columns, codes=codes, classes=classes, exclusive=True, predict=predict)


def _columns(booster: Any, text: str, host: TableHost) -> tuple[OwnColumns, dict[int, Codes]]:
    names = booster.feature_name()
    known = _categories(booster, text, host)
    learnt = _learnt_missing(text, len(names))
    columns: dict[str, ColumnConfig] = {}
    codes: dict[int, Codes] = {}
    for at, (name, missing) in enumerate(zip(names, learnt, strict=True)):
        if values := known.get(at):
            codes[at] = {value: float(code) for code, value in enumerate(values)}
            columns[name] = ColumnConfig(kind="category", values=tuple(values), missing=missing)
        else:
            columns[name] = ColumnConfig(kind="numeric", missing=missing)
    named = not all(WITHOUT_NAMES.fullmatch(name) for name in names)
    return OwnColumns(columns=columns, are_named=named, blank="_", closed=True), codes


def _categories(booster: Any, text: str, host: TableHost) -> dict[int, list[str]]:
    """The categories of each column that was one of a data frame, by its place, in the order of their codes."""
    listed = booster.pandas_categorical or []
    if not listed:
        return {}
    found = re.search(r"^\[categorical_feature: ([\d,]*)\]", text, re.M)
    places = [int(one) for one in found[1].split(",") if one] if found else []
    if len(places) != len(listed):
        raise BadModel(
            f"host.file: {host.file} has the categories of {len(listed)} columns and does not say of which; save the"
            " model again with LightGBM 4, from the process that trained it"
        )
    return {at: [class_text(one) for one in values] for at, values in zip(places, listed, strict=True)}


def _learnt_missing(text: str, columns: int) -> list[bool]:
    """Whether every split on a column has learnt what to do with NaN; True where no tree looks at it."""
    learnt = [True] * columns
    for place, decision in _splits(text):
        if place < columns and (decision >> 2) & 3 != MISSING_IS_NAN:
            learnt[place] = False
    return learnt


def _splits(text: str) -> Iterator[tuple[int, int]]:
    """The column and the type of the decision of every split."""
    features = re.findall(r"^split_feature=([\d ]*)$", text, re.M)
    decisions = re.findall(r"^decision_type=([\d ]*)$", text, re.M)
    for some, types in zip(features, decisions, strict=True):
        yield from zip(map(int, some.split()), map(int, types.split()), strict=True)


LIGHTGBM = table_kind(opened, family=lambda: "lightgbm", way_out=WAY_OUT, crashes=True)
