import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.groups import METRICS, groupwise
from demur.uncertainty.checks import InvalidInput

rows = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=30)


@pytest.mark.slow
@settings(deadline=None)
@given(rows)
def test_each_group_has_the_metric_of_its_rows(triples):
    groups, values, flags = (list(column) for column in zip(*triples, strict=True))
    inputs = {
        ("ece", "brier", "nll", "citl"): {"confidence": values, "outcome": flags},
        ("roc_auc",): {"labels": flags, "scores": values},
        ("error_roc_auc",): {"correct": flags, "u": values},
        ("rc_auc", "n_rc_auc"): {"risks": flags, "u": values},
        ("prr",): {"quality": flags, "u": values},
        ("macro_f1",): {"y_true": flags, "y_pred": [round(v) for v in values]},
    }
    assert {name for names in inputs for name in names} == set(METRICS)
    for names, arguments in inputs.items():
        for metric in names:
            result = groupwise(metric, groups, arguments)
            assert list(result) == list(dict.fromkeys(groups))
            for group, found in result.items():
                mine = [i for i, name in enumerate(groups) if name == group]
                alone = METRICS[metric](**{name: [column[i] for i in mine] for name, column in arguments.items()})
                np.testing.assert_equal((found.n, found.value), (len(mine), alone))


def test_small_groups_are_undefined_and_options_are_passed_on():
    inputs = {"confidence": np.array([0.2, 0.8, 0.6]), "outcome": [0, 1, 0], "n_bins": 1}
    result = groupwise("ece", ["a", "a", "b"], inputs, min_n=2)
    assert result["a"].value == pytest.approx(0)
    assert (result["b"].n, np.isnan(result["b"].value)) == (1, True)


@pytest.mark.parametrize(
    "call",
    [
        lambda: groupwise("mce", ["a"], {"confidence": [0.5], "outcome": [1]}),
        lambda: groupwise("ece", ["a"], {"confidence": [0.5], "outcome": [1], "bins": 3}),
        lambda: groupwise("ece", ["a"], {"confidence": [0.5]}),
        lambda: groupwise("ece", ["a", "b"], {"confidence": [0.5], "outcome": [1]}),
        lambda: groupwise("ece", [], {"confidence": [], "outcome": []}),
        lambda: groupwise("ece", ["a"], {"confidence": [0.5], "outcome": [1]}, min_n=0),
        lambda: groupwise("ece", ["a"], {"confidence": [0.5], "outcome": [1]}, min_n=1.5),
        lambda: groupwise("ece", ["a", "b"], {"confidence": [0.5, np.nan], "outcome": [1, 1]}, min_n=2),
        lambda: groupwise("ece", ["a", "b"], {"confidence": [0.5, None], "outcome": [1, 1]}, min_n=2),
        lambda: groupwise("ece", [None], {"confidence": [0.5], "outcome": [1]}),
        lambda: groupwise("ece", ["a"], {"confidence": 0.5, "outcome": 1}),
        lambda: groupwise("ece", ["a"], [[0.5], [1]]),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
