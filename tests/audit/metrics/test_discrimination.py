import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_auc_score

from demur.audit.metrics.discrimination import au_prc, error_au_prc, error_roc_auc, roc_auc
from demur.audit.metrics.ranking import Ranking
from demur.uncertainty.checks import InvalidInput

rows = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([-1.0, 0.0, 0.3]) | st.floats(-2, 2)), min_size=1, max_size=50
)


@pytest.mark.slow
@settings(deadline=None)
@given(rows)
def test_the_areas_are_those_of_scikit_learn(pairs):
    y, s = np.array(pairs, dtype=np.float64).T
    positives = y.sum()
    if 0 < positives < len(y):
        assert roc_auc(y, s) == pytest.approx(roc_auc_score(y, s), abs=1e-12)
    else:
        assert np.isnan(roc_auc(y, s))
    if positives:
        precision, recall, _ = precision_recall_curve(y, s)
        assert au_prc(y, s) == pytest.approx(average_precision_score(y, s), abs=1e-12)
        assert au_prc(y, s, rule="trapezoid") == pytest.approx(auc(recall, precision), abs=1e-12)
    else:
        assert np.isnan(au_prc(y, s))


@settings(deadline=None)
@given(rows)
def test_errors_are_the_positives(pairs):
    y, s = np.array(pairs, dtype=np.float64).T
    ranking = Ranking.by("u", s)
    np.testing.assert_array_equal(error_roc_auc(1 - y, s), roc_auc(y, s))
    np.testing.assert_array_equal(error_au_prc(1 - y, ranking), au_prc(y, s))
    np.testing.assert_allclose(error_roc_auc(1 - y, s), roc_auc(1 - y, -s), atol=1e-12)


@pytest.mark.parametrize("rule", ["step", "trapezoid"])
def test_edges_of_the_precision_recall_curve(rule):
    assert error_au_prc([0, 0, 0], [3, 1, 2], rule=rule) == 1
    assert np.isnan(error_au_prc([1, 1], [0, 1], rule=rule))


@pytest.mark.parametrize(
    "call",
    [
        lambda: roc_auc([0, 2], [0, 1]),
        lambda: roc_auc([1, 1], [0, np.nan]),  # bad input comes before an undefined value
        lambda: roc_auc([0, 1], [0]),
        lambda: au_prc([0, 1], [0, 1], rule="area"),
        lambda: au_prc([0, 0], [0, 1], rule="area"),
        lambda: error_au_prc([], []),
        lambda: error_roc_auc([0.5, 1], [0, 1]),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
