import pytest

from demur.audit.metric_agreement import metric_agreement


def test_a_metric_of_which_less_is_better_is_turned_around():
    found = metric_agreement({"prr": [0.1, 0.2, 0.3, 0.4], "rc_auc": [0.9, 0.7, 0.5, 0.6], "ece": [1.0, 1.0, 1.0, 1.0]})
    assert found["prr"]["prr"] == pytest.approx(1)
    assert found["prr"]["rc_auc"] == pytest.approx(4 / 6)  # one of six pairs is the other way round
    assert found["rc_auc"]["prr"] == found["prr"]["rc_auc"]
    assert found["ece"]["prr"] is None  # the same for all


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"prr": [0.1, 0.2, 0.3, 0.4]},
        {"prr": [0.1, 0.2, 0.3], "auroc": [0.1, 0.2, 0.3]},
        {"prr": [0.1, 0.2, 0.3, 0.4], "auroc": [0.1, None, 0.3, 0.4]},
    ],
)
def test_too_little_gives_nothing(values):
    assert metric_agreement(values) is None
