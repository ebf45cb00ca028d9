import numpy as np
import pytest

from demur.policies.conformal_sets import SampleFrequencySets
from demur.policies.label_sets import needs_of_sets, seen_by
from demur.policies.sampled_sets import sample_conformal
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.output import Output

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


def test_as_configured_they_are_the_same_sets():
    options = ["b", "a", "c"]

    def shares(samples):
        return np.array([[row.count(option) / len(row) for option in options] for row in samples])

    right = np.array([options.index(truth) for truth in GOOD["calibration_truth"]])
    sets = SampleFrequencySets(alpha=GOOD["alpha"]).fit(shares(GOOD["calibration_samples"]), right)
    members = sets.of(shares(GOOD["test_samples"]))
    found = sample_conformal(**GOOD)
    assert sets.qhat == found.qhat
    assert [[option for option, yes in zip(options, row, strict=True) if yes] for row in members] == found.sets


def test_repeated_passes_of_a_classifier_are_samples():
    sets = SampleFrequencySets(alpha=0.3)
    passes = np.array([[[0.6, 0.4], [0.1, 0.9], [0.7, 0.3], [0.8, 0.2]]])
    output = Output(logits=np.zeros((1, 2)), probabilities=np.full((1, 2), 0.5), mc_probabilities=passes)
    assert needs_of_sets(sets) == {"mc_probabilities"}
    assert seen_by(sets, output).tolist() == [[0.75, 0.25]]


def test_the_share_of_samples_of_one_input_is_at_most_1():
    with pytest.raises(InvalidInput, match="sum to more than 1"):
        SampleFrequencySets(alpha=0.3).fit([[0.75, 0.5]], [0])
