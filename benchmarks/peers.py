"""The same metrics in other libraries, as far as they are installed: `pip install demur[bench]`."""

import importlib
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np


class Absent(Exception):
    """The library is not installed, or does not import."""


def load(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except Exception as error:  # whatever keeps a peer from importing, we do without it
        raise Absent(f"{name.split('.')[0]}: {type(error).__name__}") from error


def lm_polygraph(module: str) -> Any:
    """A module of lm-polygraph's metrics alone: its packages would import every language model that it knows."""
    if "lm_polygraph" not in sys.modules:
        folder = _folder("lm_polygraph")
        for name in ("lm_polygraph", "lm_polygraph.ue_metrics"):
            package = types.ModuleType(name)
            package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
            sys.modules[name] = package
    return load(f"lm_polygraph.ue_metrics.{module}")


def _folder(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise Absent(f"{name}: not installed")
    return Path(found.origin).parent


class Tensors:
    """The arrays of a benchmark as tensors that share their memory, made outside of what is timed."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays = arrays

    def floats(self, name: str) -> Any:
        return load("torch").from_numpy(self.arrays[name])

    def __getattr__(self, name: str) -> Any:
        array = self.arrays[name]
        tensor = load("torch").from_numpy(array)
        whole = array.dtype == bool or (array.dtype == np.float64 and name in ("outcome", "error"))
        value = tensor.long() if whole else tensor
        setattr(self, name, value)
        return value


class Peers:
    """Each attribute is a callable for a peer; asking for it raises Absent when the library is missing."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.a = types.SimpleNamespace(**arrays)
        self.t = Tensors(arrays)

    @cached_property
    def sklearn(self) -> Any:
        return load("sklearn.metrics")

    @cached_property
    def scipy(self) -> Any:
        return load("scipy.stats")

    @cached_property
    def torchmetrics(self) -> Any:
        return load("torchmetrics.functional")

    @cached_property
    def torch_classes(self) -> Any:
        return load("torchmetrics.functional.classification")

    @cached_property
    def netcal(self) -> Any:
        return load("netcal.metrics")

    @cached_property
    def mapie(self) -> Any:
        return load("mapie.metrics.classification")

    @cached_property
    def mapie_calibration(self) -> Any:
        return load("mapie.metrics.calibration")

    @cached_property
    def mapie_utils(self) -> Any:
        return load("mapie.utils")

    @cached_property
    def crepes(self) -> Any:
        return load("crepes")

    def prr(self) -> Callable[[], float]:
        area = lm_polygraph("pred_rej_area").PredictionRejectionArea()
        u, outcome = self.a.u, self.a.outcome

        def ratio() -> float:
            random = outcome.mean()
            return float((area(u, outcome) - random) / (area(-outcome, outcome) - random))

        return ratio

    def rc_auc(self) -> Callable[[], float]:
        area = lm_polygraph("risk_cov_curve").RiskCoverageCurveAUC()
        return lambda: float(area(self.a.u, self.a.outcome))
