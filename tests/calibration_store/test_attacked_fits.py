"""Promises through the whole fit, where answers are wrong a hair more often than promised, whatever is answered.

So a fit may find a limit in no more draws than `delta` says. What is trusted was learnt from labels on another part.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from demur.calibration_store import fitting
from demur.calibration_store.fitting import fit_selectors
from demur.policies.label_thresholds import GivenLabelLimit
from demur.policies.prediction import MostProbable
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES

DRAWS, DELTA, RISK, HAIR = 150, 0.1, 0.2, 0.001
LIMITS = tuple(np.arange(0.3, 0.96, 0.05).round(2).tolist())
BY_BETTING = {"method": "ltt_fixed_sequence", "bound": "betting", "limits": LIMITS}

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def without_crossfit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is only reported takes half of the time."""
    monkeypatch.setattr(fitting, "_crossfit", lambda *_: {})


def one_label(rng: np.random.Generator, n: int = 500) -> LabelledOutput:
    """Return rows of four labels, of which each prediction is wrong a hair more often than promised."""
    z = rng.normal(size=(n, 4)) * 1.5
    predicted, wrong = z.argmax(axis=1), rng.random(n) < RISK + HAIR
    truth = np.where(wrong, (predicted + 1 + rng.integers(3, size=n)) % 4, predicted)
    return LabelledOutput.of_classes(Output.from_logits(z), truth)


def half_right(rng: np.random.Generator, n: int = 400) -> LabelledOutput:
    """Return rows of four labels that hold together: two are predicted, and often one of these does not hold."""
    z = np.abs(rng.normal(size=(n, 4))) + 0.1
    z[:, 2:] *= -1
    truth = np.column_stack([np.ones(n), rng.random(n) >= 2 * (RISK + HAIR), np.zeros((n, 2))]).astype(bool)
    return LabelledOutput(output=Output.from_logits(z, link="sigmoid"), truth=truth, exclusive=False)


@pytest.mark.parametrize(
    ("calibrator", "settings", "drawn"),
    [
        ("correctness", {"method": "sgr"}, one_label),
        ("correctness", BY_BETTING, one_label),
        pytest.param("vector", {"method": "sgr"}, one_label, marks=pytest.mark.long),
        pytest.param("histogram_binning", BY_BETTING, one_label, marks=pytest.mark.long),
        ("isotonic", BY_BETTING, half_right),
    ],
)
def test_no_more_fits_find_a_limit_than_stated(
    calibrator: str, settings: Mapping[str, Any], drawn: Callable[[np.random.Generator], LabelledOutput]
) -> None:
    score, right = ("softmax_response", "exact") if drawn is one_label else ("binary_entropy", "jaccard")
    recipe = SelectorRecipe(
        scores={score: SCORES[score]()},
        confidence_score=score,
        calibrator=CALIBRATORS[calibrator](),
        policy=SelectiveRisk(max_risk=RISK, delta=DELTA, **settings),
        right=right,
        predictor=MostProbable() if drawn is one_label else GivenLabelLimit(limit=0.5),
    )
    rng, found = np.random.default_rng(1), 0
    for _ in range(DRAWS):
        fit = fit_selectors(
            {"m": recipe},
            {"m": drawn(rng)},
            report=lambda *_: {},
            cross_report=lambda *_: {},
            report_share=0.4,
            rng=np.random.default_rng(rng.integers(2**32)),
        )
        promise = fit.selector.policy.promise
        found += promise is not None and promise.feasible
    assert found <= binom.ppf(0.999, DRAWS, DELTA)
