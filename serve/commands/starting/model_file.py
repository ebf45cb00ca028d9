"""What the file of a model of tables says: which classes it tells apart, and which columns it takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from demur.library.class_text import class_text
from demur.serve.config.file import BadConfig
from demur.serve.config.hosts.tabular import LightgbmHost, SklearnHost, XgboostHost
from demur.serve.config.input import ColumnConfig
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.trial_process import ProcessEnded, answer_with, done_apart

if TYPE_CHECKING:
    from demur.serve.hosts.tabular.booster import Booster

KINDS_BY_ENDING = {
    ".onnx": "onnx",
    ".skops": "sklearn",
    ".joblib": "sklearn",
    ".pkl": "sklearn",
    ".pickle": "sklearn",
    ".json": "xgboost",
    ".ubj": "xgboost",
    ".txt": "lightgbm",
}
"""The kind of host that reads a file, by how its name ends."""


@dataclass(frozen=True, kw_only=True)
class ModelFileFacts:
    """What a file says. A file that cannot be read here says nothing."""

    labels: tuple[str, ...] = ()
    """Names of the classes, in the order of the outputs; empty where the file has none."""

    numbered: int = 0
    """How many classes there are that the file knows by the numbers 0, 1, ... alone."""

    exclusive: bool = True
    """Whether exactly one class is right for each row."""

    columns: Mapping[str, ColumnConfig] | None = None
    """Columns that the file names, or of which it knows whether a value may be missing."""

    are_named: bool = False
    """Whether the names of the columns are those of the file. Else it only numbers them."""

    takes_missing: bool = False
    """Whether the model takes a missing value in any column, whatever the file says of it."""


NOTHING = ModelFileFacts()

FACTS = TypeAdapter(ModelFileFacts)


def facts_of(kind: str, file: Path) -> ModelFileFacts:
    """Return what a file says to the kind of host that reads it. No model is run on rows of anybody.

    Raises `BadConfig` for a file that no configuration could serve. What a configuration can mend, such as types that
    somebody has to vouch for, is left to `demur check`."""
    try:
        found = done_apart(__name__, {"kind": kind, "file": str(file)})
    except BadModel as error:
        raise BadConfig(str(error)) from None
    except ProcessEnded as error:
        raise BadConfig(f"{file} {error}; the file may be damaged, so save the model again") from None
    return FACTS.validate_python(found)


def _read(told: Any) -> Any:
    """In a process of its own, which a damaged file may end."""
    return FACTS.dump_python(_READERS[told["kind"]](Path(told["file"])), mode="json")


def _of_sklearn(file: Path) -> ModelFileFacts:
    if file.suffix.lower() != ".skops" or find_spec("skops") is None:
        return NOTHING  # a file of joblib or pickle runs code when it is loaded
    from demur.serve.hosts.tabular.sklearn_file import opened

    try:
        estimator, _ = opened(SklearnHost(kind="sklearn", file=file))
    except BadModel:
        return NOTHING
    classes = estimator.classes_
    if isinstance(classes, list) or np.ndim(classes) != 1:
        return NOTHING
    return ModelFileFacts(labels=tuple(map(class_text, np.asarray(classes).tolist())))


def _of_onnx(file: Path) -> ModelFileFacts:
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        return NOTHING
    from demur.serve.hosts.onnx.class_names import class_names

    return _named(class_names(file))


def _named(names: list[Any]) -> ModelFileFacts:
    """Names of classes, which may be 0, 1, ... that stand for names."""
    if names == list(range(len(names))):
        return ModelFileFacts(numbered=len(names))
    return ModelFileFacts(labels=tuple(map(class_text, names)))


def _of_xgboost(file: Path) -> ModelFileFacts:
    if find_spec("xgboost") is None:
        return NOTHING
    from demur.serve.hosts.tabular import xgboost_model

    return _of_trees(xgboost_model.booster_of(XgboostHost(kind="xgboost", file=file)), takes_missing=True)


def _of_lightgbm(file: Path) -> ModelFileFacts:
    if find_spec("lightgbm") is None:
        return NOTHING
    from demur.serve.hosts.tabular import lightgbm_model

    return _of_trees(lightgbm_model.booster_of(LightgbmHost(kind="lightgbm", file=file)), takes_missing=False)


def _of_trees(booster: "Booster", *, takes_missing: bool) -> ModelFileFacts:
    return ModelFileFacts(
        numbered=booster.classes,
        exclusive=booster.exclusive,
        columns=booster.columns.columns,
        are_named=booster.columns.are_named,
        takes_missing=takes_missing,
    )


_READERS: dict[str, Callable[[Path], ModelFileFacts]] = {
    "sklearn": _of_sklearn,
    "onnx": _of_onnx,
    "xgboost": _of_xgboost,
    "lightgbm": _of_lightgbm,
}


if __name__ == "__main__":
    answer_with(_read)
