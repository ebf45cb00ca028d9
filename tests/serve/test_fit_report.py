import pytest

from calibration_store.fitting import Fit
from serve.fit_report import tables

LINE = {"value": 0.1, "n": 80}
REPORT = {"ece": LINE, "ece_before": LINE, "prr.entropy": LINE, "prr.confidence": {"value": None, "n": 80}}


@pytest.mark.parametrize(("crossfit", "said"), [({"ece": LINE}, None), ({}, "no cross-fitted values")])
def test_numbers_and_scores_have_a_table_each_and_what_is_missing_is_said(crossfit, said):
    fit = Fit(selectors={}, n_fitted=120, n_reported=80, report=REPORT, crossfit=crossfit)
    numbers, scores = tables("toy-1", fit)
    assert list(numbers.columns[0].cells) == ["ece"]
    assert list(numbers.columns[3].cells) == ["0.1000" if crossfit else ""]
    assert list(scores.columns[0].cells) == ["entropy", "confidence"]
    assert list(scores.columns[1].cells) == ["0.1000", "undefined"]
    assert said is None or said in numbers.caption
