import math

import pytest

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.label_sets import mean_over_predicted_labels


@pytest.mark.parametrize(
    ("uncertainties", "predicted", "mean"),
    [
        ({"A": 0.2, "B": 0.6, "C": 0.9}, ["A", "C"], 0.55),
        ({"A": 0.2, "B": 0.6}, ["B", "A", "A"], 0.4),  # a set: repeats say nothing
        ({"A": 3}, ("A",), 3.0),
        ({"A": 0.2}, [], math.nan),  # nothing predicted is not surely nothing
        ({}, [], math.nan),
    ],
)
def test_mean(uncertainties, predicted, mean):
    assert mean_over_predicted_labels(uncertainties, predicted) == pytest.approx(mean, nan_ok=True)


@pytest.mark.parametrize(
    ("uncertainties", "predicted"),
    [
        ({"A": 0.2}, ["B"]),
        ({}, ["A"]),
        ({"A": math.nan}, []),  # the input is checked before it is found that nothing is predicted
        ({"A": 0.2, "B": math.inf}, ["A"]),
        ({"A": "x"}, ["A"]),
        ({"A": 0.2}, "A"),
        ({"A": 0.2}, None),
        ({"A": 0.2}, [None]),
        ({"A": 0.2}, [["A"]]),
        ([0.2], ["A"]),
    ],
)
def test_what_is_refused(uncertainties, predicted):
    with pytest.raises(InvalidInput):
        mean_over_predicted_labels(uncertainties, predicted)
