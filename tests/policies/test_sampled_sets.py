import numpy as np
import pytest

from policies.sampled_sets import sample_conformal
from uncertainty.checks import InvalidInput

GOOD = {
    "calibration_samples": [["a", "a", "b", None], ["b", "b", "b", "b"], ["a", "b", "b", "b"]],
    "calibration_truth": ["a", "b", "b"],
    "options": ["b", "a", "c"],
    "alpha": 0.3,
    "test_samples": [["a", "b", "c", "c"], ["a", "a", "a", None], [None, None, None, None]],
}


def test_replies_that_could_not_be_read_count_against_every_option():
    found = sample_conformal(**GOOD)
    assert found.qhat == 0.5  # of 0.5, 0 and 0.25, the third
    assert found.sets == [["c"], ["a"], []]


def test_too_few_rows_give_full_sets_in_the_order_of_the_options():
    found = sample_conformal(**{**GOOD, "alpha": 0.1})
    assert found.qhat == np.inf
    assert found.sets == [["b", "a", "c"]] * 3
    assert sample_conformal(**{**GOOD, "alpha": 0.1, "method": "plain"}).qhat == 0.5


def test_a_quantile_of_1_admits_options_that_were_never_named():
    found = sample_conformal(**{**GOOD, "calibration_truth": ["c", "b", "b"]})
    assert found.qhat == 1
    assert found.sets == [["b", "a", "c"]] * 3


@pytest.mark.parametrize(
    "change",
    [
        {"calibration_truth": ["a", "b"]},
        {"calibration_truth": ["a", "b", "z"]},
        {"calibration_truth": ["a", "b", None]},
        {"calibration_truth": ["a", "b", ["b"]]},
        {"calibration_samples": [], "calibration_truth": []},
        {"calibration_samples": [["a"], ["b"], []]},
        {"calibration_samples": [["a"], ["b"], ["z"]]},
        {"test_samples": []},
        {"options": []},
        {"options": ["a", "b", "c", "a"]},
        {"alpha": 0},
        {"method": "exact"},
    ],
)
def test_bad_input(change):
    with pytest.raises(InvalidInput):
        sample_conformal(**{**GOOD, **change})
