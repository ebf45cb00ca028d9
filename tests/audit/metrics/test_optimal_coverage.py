import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from demur.audit.metrics.optimal_coverage import e_auopt_rc, excess_auopt_rc, rejection_report, trust_index
from demur.audit.metrics.predictive_quality import macro_f1
from demur.audit.metrics.ranking import Ranking
from demur.audit.metrics.selective import e_aurc, rc_curve
from demur.uncertainty.checks import InvalidInput

rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0]) | st.floats(-2, 2)),
    min_size=1,
    max_size=30,
)


def columns(triples):
    true, predicted, u = zip(*triples, strict=True)
    return np.array(true), np.array(predicted), np.array(u, dtype=np.float64)


@settings(deadline=None)
@given(rows)
def test_an_oracle_reaches_the_best_value(triples):
    true, predicted, _ = columns(triples)
    wrong = (true != predicted).astype(float)
    assert e_auopt_rc(true, predicted, wrong, c_star="accuracy") == pytest.approx(0)
    assert excess_auopt_rc(true, predicted, wrong) == pytest.approx(0)
    assert e_aurc(wrong, wrong) == pytest.approx(0)
    if wrong.mean() < 1:
        assert trust_index(true, predicted, wrong, coverage="accuracy") == 1


@settings(deadline=None)
@given(rows, st.floats(0, 1))
def test_areas_agree_with_the_definition(triples, coverage):
    true, predicted, u = columns(triples)
    n, order = len(u), np.argsort(u, kind="stable")
    curve = rc_curve(true != predicted, u).risk
    f1_risks = np.array([1 - macro_f1(true[order[:k]], predicted[order[:k]]) for k in range(1, n + 1)])
    kept = int(np.floor(coverage * n + 1e-9))
    for risk, values in (("error", curve), ("macro_f1", f1_risks)):
        area = e_auopt_rc(true, predicted, u, c_star=coverage, risk=risk)
        assert area == pytest.approx(values[:kept].sum() / n)
        line = e_auopt_rc(true, predicted, Ranking.by("u", u), c_star=coverage, risk=risk, rule="trapezoid")
        assert line == pytest.approx(np.trapezoid(values[:kept]) / n)
    right = int((true == predicted).sum())
    perfect = rc_curve(true != predicted, true != predicted).risk
    assert excess_auopt_rc(true, predicted, u) == pytest.approx((curve - perfect)[right:].sum() / n)


@settings(deadline=None)
@given(rows, st.floats(0, 1))
def test_rejection_agrees_with_the_definition(triples, rate):
    true, predicted, u = columns(triples)
    order = np.argsort(u, kind="stable")
    m = int(np.ceil(rate * len(u) - 1e-9))
    kept, gone = order[: len(u) - m], order[len(u) - m :]
    (line,) = rejection_report(true, predicted, u, rates=[rate])
    wrong = true != predicted
    assert line.n_rejected == m
    expected = (
        f1_score(true[kept], predicted[kept], average="macro", zero_division=0) if len(kept) else np.nan,
        wrong[gone].sum() / m if m else np.nan,
        wrong[gone].sum() / wrong.sum() if wrong.any() else np.nan,
    )
    got = (line.macro_f1, line.rejected_error_precision, line.error_recall)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    full = f1_score(true, predicted, average="macro", zero_division=0)
    np.testing.assert_allclose(line.delta_macro_f1, line.macro_f1 - full, atol=1e-12)


def test_rates_of_nothing_and_everything():
    none, every = rejection_report([0, 1], [0, 0], [0.1, 0.2], rates=(0, 1))
    assert (none.n_rejected, none.delta_macro_f1, none.n_classes_lost) == (0, 0, 0)
    assert np.isnan(none.rejected_error_precision)
    assert (every.n_rejected, every.rejected_error_precision, every.error_recall) == (2, 0.5, 1)
    assert np.isnan(every.delta_macro_f1)
    assert every.n_classes_lost == 2


def test_a_class_that_leaves_is_counted():
    (line,) = rejection_report(["a", "a", "b"], ["a", "a", "a"], [0, 0, 1], rates=[1 / 3])
    assert (line.n_classes_lost, line.macro_f1) == (1, 1)


@pytest.mark.parametrize(("rate", "n_rejected"), [(0.07, 7), (0.071, 8), (0.29, 29)])
def test_whole_products_are_whole(rate, n_rejected):
    classes = np.zeros(100, dtype=int)
    assert rejection_report(classes, classes, np.arange(100), rates=[rate])[0].n_rejected == n_rejected


def test_of_tied_rows_the_later_is_rejected_first():
    assert trust_index([0, 1], [0, 0], [0.5, 0.5], coverage=0.5) == 1
    assert trust_index([1, 0], [0, 0], [0.5, 0.5], coverage=0.5) == 0


def test_nothing_kept_is_undefined():
    assert np.isnan(trust_index([0, 1], [1, 0], [1, 2]))
    assert np.isnan(trust_index([0, 1], [0, 1], [1, 2], coverage=0.4))
    assert e_auopt_rc([0, 1], [1, 0], [1, 2]) == 0  # an empty sum, for areas


@pytest.mark.parametrize(
    "call",
    [
        lambda: trust_index([0], [0], [np.nan]),
        lambda: trust_index([0, 1], [0], [1]),
        lambda: trust_index([0, 1], [0, 1], [1]),
        lambda: trust_index([0], [0], [1], coverage="f1"),
        lambda: trust_index([0], [0], [1], coverage=1.5),
        lambda: trust_index([None], [0], [1]),
        lambda: e_auopt_rc([0], [0], [1], c_star=-0.1),
        lambda: e_auopt_rc([0], [0], [1], risk="brier"),
        lambda: e_auopt_rc([0], [0], [1], rule="sum"),
        lambda: e_auopt_rc([0], [0], [1], risk="macro_f1", ties="x"),
        lambda: excess_auopt_rc([], [], []),
        lambda: excess_auopt_rc([0], [0], [1], ties="x"),
        lambda: rejection_report([0], [0], [1], rates=[1.1]),
        lambda: rejection_report([0], [0], [1], rates=[]),
        lambda: rejection_report([0], [0], [1], rates=0.1),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
