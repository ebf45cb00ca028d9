"""`host: {kind: xgboost}`: trees of XGBoost, from its own JSON or UBJ."""

import json
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

OBJECTIVES = ("binary:logistic", "multi:softprob", "multi:softmax")
"""Objectives whose predictions are probabilities, or become probabilities by a softmax."""

KINDS = {"float": "number", "q": "number", "int": "number", "i": "boolean", "c": "category"}
"""Kinds of column by XGBoost's names; whatever else there may be is `numeric`."""


WAY_OUT = "save the model again with `model.save_model('model.json')` or `'model.ubj'`"


def opened(model: ModelConfig) -> SyncModel:
    """Return the model of a file. Raises `BadModel`."""
    return BoosterModel(model, booster_of(table_host(model)))


def booster_of(host: TableHost) -> Booster:
    """Return what a file holds. Raises `BadModel`, and ends the process where a file is damaged in certain ways."""
    import xgboost

    try:
        booster = xgboost.Booster(model_file=host.file)
        booster.inplace_predict(probes(booster.num_features()), validate_features=False)
    except (xgboost.core.XGBoostError, ValueError, TypeError, UnicodeDecodeError) as error:
        raise unreadable("xgboost", host.file, error, WAY_OUT) from None
    learner = json.loads(booster.save_config())["learner"]
    objective, params = learner["objective"]["name"], learner["learner_model_param"]
    if objective not in OBJECTIVES:
        raise BadModel(
            f"host.file: {host.file} was trained with the objective {objective}, which gives no probabilities of"
            f" labels; train it with {OBJECTIVES[0]} or {OBJECTIVES[1]}"
        )
    if objective == "multi:softmax":  # the trees are those of softprob, and only the output differs
        booster.set_param({"objective": "multi:softprob"})
    booster.set_param({"nthread": host.threads})
    targets = int(params.get("num_target", 1))
    classes = int(params["num_class"]) or (2 if targets == 1 else targets)
    rounds = booster.num_boosted_rounds()
    best = booster.attributes().get("best_iteration")
    used = (0, min(int(best) + 1, rounds) if best is not None and best.isdecimal() else 0)

    def predict(rows: Array) -> Any:
        found = booster.inplace_predict(rows, iteration_range=used, validate_features=False)
        return np.column_stack([1 - found, found]) if found.ndim == 1 and classes == 2 and targets == 1 else found

    columns, codes = _columns(booster, host)
    return Booster(columns=columns, codes=codes, classes=classes, exclusive=targets == 1, predict=predict)


def _columns(booster: Any, host: TableHost) -> tuple[OwnColumns, dict[int, Codes]]:
    number = booster.num_features()
    names = booster.feature_names or [f"f{at}" for at in range(number)]
    types = booster.feature_types or ["numeric"] * number
    if len(set(names)) < len(names):
        raise BadModel(f"host.file: two columns of {host.file} have one name; train the model with different names")
    known = _categories(booster)
    columns: dict[str, ColumnConfig] = {}
    codes: dict[int, Codes] = {}
    for at, (name, kind) in enumerate(zip(names, types, strict=True)):
        values = known.get(name) if kind == "c" else None
        if values:
            codes[at] = {value: float(code) for code, value in enumerate(values)}
            columns[name] = ColumnConfig(kind="category", values=tuple(values))
        elif kind == "c":  # trained on codes, whose texts the file does not have
            columns[name] = ColumnConfig(min=0)
        else:
            columns[name] = ColumnConfig(kind=KINDS.get(kind, "numeric"))  # type: ignore[arg-type]
    return OwnColumns(columns=columns, are_named=booster.feature_names is not None, closed=True), codes


def _categories(booster: Any) -> dict[str, list[str]]:
    """The categories that a file has of a data frame, in the order of their codes."""
    if not hasattr(booster, "get_categories"):  # before XGBoost 3.1
        return {}
    listed = booster.get_categories(export_to_arrow=True).to_arrow() or []
    return {name: [class_text(one) for one in values.to_pylist()] for name, values in listed if values is not None}


XGBOOST = table_kind(opened, family=lambda: "xgboost", way_out=WAY_OUT, crashes=True)
