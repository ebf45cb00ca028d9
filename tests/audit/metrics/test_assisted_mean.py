import math
from itertools import product

import numpy as np
import pytest

from demur.audit.metrics.assisted_mean import aipw_mean
from demur.uncertainty.checks import InvalidInput


@pytest.mark.parametrize("predicted", [[0, 0, 0, 0], [0.3, 0.9, 0.1, 0.5], [7, -3, 2, 2]])
def test_it_is_unbiased_over_all_draws_whatever_is_predicted(predicted):
    outcome, probability = [1, 0, 1, 0], [0.5, 0.2, 0.9, 0.4]
    total = 0.0
    for labels in product([0, 1], repeat=4):
        chance = math.prod(pi if x else 1 - pi for x, pi in zip(labels, probability, strict=True))
        found = aipw_mean(predicted, outcome, labels, probability)
        total += chance * (found.estimate if any(labels) else np.mean(predicted))
    assert total == pytest.approx(0.5)


def test_good_predictions_shorten_the_interval_and_it_covers():
    rng, n, covered, widths = np.random.default_rng(0), 1_000, 0, []
    for _ in range(300):
        risk = rng.random(n)
        outcome = rng.random(n) < risk
        labelled = rng.random(n) < 0.1
        known = np.where(labelled, outcome, np.nan)
        good, bad = (aipw_mean(f, known, labelled, np.full(n, 0.1)) for f in (risk, np.zeros(n)))
        covered += good.lower <= 0.5 <= good.upper
        widths.append(good.standard_error / bad.standard_error)
    assert 0.91 <= covered / 300 <= 0.98
    assert np.mean(widths) < 0.75


def test_of_one_row_there_is_no_interval():
    found = aipw_mean([0.2], [1], [1], [0.5])
    assert found.estimate == pytest.approx(0.2 + 2 * 0.8)
    assert math.isnan(found.standard_error)
    assert math.isnan(found.upper)


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": [None, 1]},
        {"outcome": [1]},
        {"probability": [0, 1]},
        {"predicted": [math.nan, 0]},
        {"labelled": [1, 2]},
        {"delta": 1},
    ],
)
def test_what_is_refused(changes):
    good = {"predicted": [0.1, 0.2], "outcome": [1, None], "labelled": [1, 0], "probability": [1, 1]}
    aipw_mean(**good)
    with pytest.raises(InvalidInput):
        aipw_mean(**{**good, **changes})
