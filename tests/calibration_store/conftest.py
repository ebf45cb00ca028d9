import numpy as np
import pytest

from demur.calibration_store.artifact import ModelIdentity, pack
from demur.policies.conformal_sets import SplitSets
from demur.policies.selector_recipe import FitSplit, SelectorRecipe
from demur.policies.threshold import TargetRisk
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES


@pytest.fixture(scope="session")
def identity():
    return ModelIdentity(checkpoint="a/model", fingerprint="f" * 64, labels=("no", "yes", "maybe"))


@pytest.fixture(scope="session")
def rows():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=200)
    logits = rng.normal(size=(200, 3)) + 2 * np.eye(3)[truth]
    return LabelledOutput.of_classes(Output.from_logits(logits, embedding=rng.normal(size=(200, 4))), truth)


@pytest.fixture(scope="session")
def recipe():
    return SelectorRecipe(
        scores={"entropy": SCORES["entropy"](), "mahalanobis": SCORES["mahalanobis"]()},
        confidence_score="entropy",
        calibrator=CALIBRATORS["isotonic"](),
        policy=TargetRisk(max_risk=0.1),
        sets=SplitSets(alpha=0.1),
    )


@pytest.fixture(scope="session")
def selector(recipe, rows):
    return recipe.fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))


@pytest.fixture
def files(selector, identity):
    return pack(selector, model="toy", identity=identity, facts={"report": {"accuracy": {"value": 0.8, "n": 10}}})
