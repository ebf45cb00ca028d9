"""Prediction sets of TorchCP, on the splits and probabilities of ours; it is no part of the extra `bench`.

Its package brings libraries for graphs, training losses and language models into every import. None of them is needed
for sets from given probabilities, so only the files with the sets are imported.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.real.set_kinds import ALPHAS, SetCase
from benchmarks.real.set_promises import Peer
from benchmarks.real.splits import Split
from demur.uncertainty.checks import Array

FOLDER = Path("var/torchcp")
"""Not among the other packages: it brings a package `tests`, which would hide ours."""

INSTALL = f"pip install --no-deps --target {FOLDER} torchcp==1.2.1"

PACKAGE = "torchcp"


def is_installed() -> bool:
    return (FOLDER / PACKAGE).is_dir() and find_spec("torch") is not None


def _part(name: str) -> Any:
    """Import one of its files without what the packages above it import."""
    for package in (PACKAGE, f"{PACKAGE}.classification", f"{PACKAGE}.classification.{name.split('.')[0]}"):
        if package not in sys.modules:
            bare = ModuleType(package)
            bare.__path__ = _places(package)
            sys.modules[package] = bare
    return import_module(f"{PACKAGE}.classification.{name}")


def _places(package: str) -> list[str]:
    return [str(FOLDER.resolve().joinpath(*package.split(".")))]


def _sets(predictor: Callable[[], Any], case: SetCase, part: Split) -> Array:
    """[m, C, A]; probabilities enter as logits, which its softmax turns back."""
    import torch

    logits = torch.from_numpy(np.log(np.maximum(case.probabilities, 1e-300)))
    fit, test = torch.from_numpy(part.fit), torch.from_numpy(part.test)
    columns = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of settings that it gives up, and of labels without rows
        torch.manual_seed(0)
        for alpha in ALPHAS:
            fitted = predictor()
            fitted.calculate_threshold(logits[fit], torch.from_numpy(case.classes)[fit], alpha)
            columns.append(np.asarray(fitted.predict_with_logits(logits[test]), dtype=bool))
    return np.stack(columns, axis=2)


def _split(score: str, **settings: Any) -> Callable[[SetCase, Split], Array]:
    def made() -> Any:
        function = getattr(_part(f"score.{score.lower()}"), score)(**settings)
        return _part("predictor.split").SplitPredictor(function)

    return lambda case, part: _sets(made, case, part)


def _class_conditional(case: SetCase, part: Split) -> Array:
    def made() -> Any:
        return _part("predictor.class_conditional").ClassConditionalPredictor(_part("score.lac").LAC())

    return _sets(made, case, part)


SETS: Mapping[str, Mapping[str, Peer]] = {
    "split": {"TorchCP": Peer(sets=_split("LAC"))},
    "adaptive": {
        "TorchCP": Peer(sets=_split("APS", randomized=False)),
        "TorchCP, randomised": Peer(sets=_split("APS")),
    },
    "regularised": {
        "TorchCP": Peer(sets=_split("RAPS", randomized=False, penalty=0.2, kreg=1)),
        "TorchCP, randomised": Peer(sets=_split("RAPS", penalty=0.2, kreg=1)),
    },
    "class-conditional": {"TorchCP": Peer(sets=_class_conditional)},
}
