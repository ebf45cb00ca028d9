import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.discrimination import au_prc, error_roc_auc
from demur.audit.metrics.optimal_coverage import rejection_report, trust_index
from demur.audit.metrics.ranking import Ranking
from demur.audit.metrics.selective import e_aurc, n_rc_auc, prr, prr_areas, prr_grid, rc_auc, rc_curve
from demur.uncertainty.checks import InvalidInput

ranked_outcomes = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, 3.0]), st.integers(0, 1)), min_size=2, max_size=40
)
ranked_risks = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, 3.0]), st.sampled_from([0.0, 0.1, 0.25, 1.0])),
    min_size=1,
    max_size=40,
)


def columns(rows):
    u, risk = np.array(rows, dtype=np.float64).T
    return u, risk


def mean_over_tie_orders(risk, u, draws=4000):
    rng = np.random.default_rng(0)
    return np.mean([rc_auc(risk, np.lexsort((rng.random(len(u)), u)).argsort()) for _ in range(draws)])


@settings(deadline=None)
@given(ranked_outcomes, st.randoms(use_true_random=False))
def test_row_order_does_not_matter(rows, random):
    shuffled = random.sample(rows, len(rows))
    for metric in (rc_auc, n_rc_auc, e_aurc, lambda risk, u: prr(1 - risk, u)):
        values = [metric(*columns(order)[::-1]) for order in (rows, shuffled)]
        np.testing.assert_allclose(*values, atol=1e-12)


@settings(deadline=None)
@given(ranked_outcomes)
def test_an_increasing_map_of_the_score_changes_nothing(rows):
    u, risk = columns(rows)
    classes = np.arange(len(u)) % 3
    predicted = (classes + risk) % 3
    metrics = (
        rc_auc,
        n_rc_auc,
        lambda r, s: prr(1 - r, s),
        lambda r, s: error_roc_auc(1 - r, s),
        au_prc,
        lambda _, s: trust_index(classes, predicted, s),
        lambda _, s: [x.delta_macro_f1 for x in rejection_report(classes, predicted, s)],
    )
    for metric in metrics:
        np.testing.assert_allclose(metric(risk, u), metric(risk, np.exp(u) * 7), atol=1e-12)


@settings(deadline=None)
@given(ranked_risks)
def test_a_constant_score_is_worth_nothing(rows):
    _, risk = columns(rows)
    constant = np.ones(len(risk))
    assert rc_auc(risk, constant) == pytest.approx(risk.mean())
    if risk.min() < risk.max():
        assert prr(1 - risk, constant) == pytest.approx(0)
        assert n_rc_auc(risk, constant) == pytest.approx(0)
    if set(risk) == {0, 1}:
        assert error_roc_auc(1 - risk, constant) == 0.5


@settings(deadline=None)
@given(ranked_risks)
def test_the_normalised_area_of_the_risk_is_the_ratio_of_the_quality(rows):
    u, risk = columns(rows)
    np.testing.assert_allclose(n_rc_auc(risk, u), prr(1 - risk, u), atol=1e-9)


@settings(deadline=None)
@given(ranked_risks)
def test_a_shared_ranking_gives_the_same_numbers(rows):
    u, risk = columns(rows)
    ranking = Ranking.by("u", u)
    for metric in (rc_auc, n_rc_auc, e_aurc, prr, prr_grid):
        np.testing.assert_array_equal(metric(risk, ranking), metric(risk, u))


def test_tied_rows_carry_the_expectation_over_random_orders():
    risk, u = np.array([1, 0, 0, 1, 0, 1.0]), np.array([0.1, 0.1, 0.1, 0.5, 0.5, 0.9])
    assert rc_auc(risk, u) == pytest.approx(mean_over_tie_orders(risk, u), abs=0.005)


def test_a_perfect_score_has_a_ratio_of_one():
    assert prr([1, 1, 0, 1, 0], [0.1, 0.2, 0.8, 0.3, 0.9]) == pytest.approx(1)
    assert e_aurc([0, 0, 1, 0, 1], [0.1, 0.2, 0.8, 0.3, 0.9]) == pytest.approx(0)


@pytest.mark.parametrize(
    ("rejected", "expected"),
    [
        (0.07, 7),  # 0.07 * 100 is 7.000000000000001
        (0.29, 29),  # 0.29 * 100 is 28.999999999999996
        (0.295, 29),
    ],
)
def test_rejecting_a_part_looks_at_that_part_alone(rejected, expected):
    rng = np.random.default_rng(0)
    quality, u = rng.random(100), rng.random(100)
    means = 1 - rc_curve(1 - quality, u).risk
    assert prr_areas(quality, u, max_rejection=rejected).model == pytest.approx(means[-expected:].mean())


@pytest.mark.parametrize("share", [0.1, 0.4])  # nothing to reject; full coverage alone, where every order is the same
def test_a_ratio_without_a_choice_is_undefined(share):
    assert np.isnan(prr([1, 0, 1], [0.1, 0.2, 0.3], max_rejection=share))


@pytest.mark.parametrize("steps", [3, 4, 7, 20, 50])
def test_the_grid_agrees_with_the_definition(steps):
    rng = np.random.default_rng(steps)
    quality, u = rng.random(17), rng.random(17)

    def area(order):
        coverage = [i / (steps - 1) for i in range(1, steps)]
        kept = [-(-i * 17 // (steps - 1)) for i in range(1, steps)]
        return np.trapezoid([quality[order[:k]].mean() for k in kept], coverage)

    chance = quality.mean() * (steps - 2) / (steps - 1)
    expected = (area(u.argsort()) - chance) / (area((-quality).argsort()) - chance)
    assert prr_grid(quality, u, steps=steps) == pytest.approx(expected)


def test_the_grid_of_one_coverage_has_no_area():
    assert np.isnan(prr_grid([1, 0], [0, 1], steps=2))


def test_the_curve_ends_at_the_mean_risk():
    curve = rc_curve([0, 1, 0, 0], [0.4, 0.1, 0.2, 0.2])
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == 0.25


@pytest.mark.parametrize(
    ("rule", "expected"), [("mean", 1 / 3), ("sum", 1), ("trapezoid", (0 + 0.5) / 2 / 3 + 0.5 / 3)]
)
def test_rules_of_the_area(rule, expected):
    assert rc_auc([0, 1, 0.5], [1, 2, 3], rule=rule) == pytest.approx(expected)


def test_one_row_is_its_own_area():
    assert [rc_auc([0.3], [1], rule=rule) for rule in ("mean", "sum", "trapezoid")] == [0.3, 0.3, 0.3]
    assert np.isnan(n_rc_auc([0.3], [1]))


@pytest.mark.parametrize("metric", [prr, prr_areas, prr_grid, rc_curve, rc_auc, n_rc_auc, e_aurc])
def test_labels_are_no_measure_of_how_right_a_row_is(metric):
    """They would give a number that means nothing."""
    for labels in ([0, 1, 2, 1], np.array([3, 7, 3, 1]), [-1, 1, -1, 1]):
        with pytest.raises(InvalidInput, match=r"(quality|risks) has the whole number -?\d, which looks like a label"):
            metric(labels, [0.1, 0.2, 0.3, 0.4])
    for measured in ([0.0, 1.0, 2.0, 1.0], [True, False, True, True], [1, 0, 1, 1]):
        metric(measured, [0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize(
    "call",
    [
        lambda: prr([1, 0], [0.1]),
        lambda: prr([1, np.nan], [0.1, 0.2]),
        lambda: prr([1, 1], [0.1, np.inf]),  # bad input comes before an undefined value
        lambda: prr([], []),
        lambda: prr([1, 0], [0, 1], ties="random"),
        lambda: prr([1, 0], [0, 1], max_rejection=0),
        lambda: prr([1, 0], [0, 1], max_rejection=1.1),
        lambda: prr([1, 0], [0, 1], max_rejection="all"),
        lambda: prr_areas([1, 0], [0, 1], max_rejection=0.1, ties="no"),
        lambda: prr_grid([1, 0], [0, 1], steps=1),
        lambda: prr_grid([1, 0], [0, 1], steps=20.0),
        lambda: rc_auc([1, 0], [0, 1], rule="simpson"),
        lambda: n_rc_auc([1, 1], [0, None]),
        lambda: e_aurc([[1, 0]], [[0, 1]]),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
