import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from uncertainty.calibrators import CALIBRATORS
from uncertainty.checks import InvalidInput
from uncertainty.isotonic import fit_isotonic
from uncertainty.platt import fit_platt

scored_outcomes = st.lists(st.tuples(st.floats(-100, 100, allow_nan=False), st.integers(0, 1)), min_size=2, max_size=40)


@given(scored_outcomes)
def test_isotonic_never_falls_and_keeps_the_mean(rows):
    evidence, targets = np.array(rows, dtype=np.float64).T
    fitted = fit_isotonic(evidence, targets)
    grid = np.linspace(-120, 120, 200)
    assert (np.diff(fitted.confidence(grid)) >= -1e-12).all()
    assert np.mean(fitted.confidence(evidence)) == pytest.approx(targets.mean(), abs=1e-9)


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_unknown_evidence_gives_an_unknown_confidence(kind):
    recipe, evidence, target = CALIBRATORS[kind](), np.array([0.1, 0.4, 0.6, 0.9]), np.array([0.0, 1.0, 0.0, 1.0])
    unknown = np.array([0.4, np.nan])
    if recipe.reads == "logits":
        evidence, unknown = np.column_stack([np.zeros(4), evidence]), np.column_stack([np.zeros(2), unknown])
    confidence = recipe.fit(evidence, target).confidence(unknown)
    assert 0 <= confidence[0] <= 1
    assert np.isnan(confidence[1])


def test_isotonic_steps_are_right_continuous():
    fitted = fit_isotonic([0.2, 0.4, 0.6], [0, 0, 1], interpolation="step")
    assert fitted.confidence(np.array([0.1, 0.2, 0.59, 0.6, 0.9, np.nan])).tolist()[:5] == [0, 0, 0, 1, 1]


def test_platt_without_smoothing_is_plain_logistic_regression():
    rng = np.random.default_rng(0)
    evidence = rng.normal(3, 5, size=300)
    targets = (rng.random(300) < 1 / (1 + np.exp(1 - 0.4 * evidence))).astype(float)
    reference = LogisticRegression(C=np.inf, tol=1e-10).fit(evidence[:, None], targets)
    fitted = fit_platt(evidence, targets, smoothing=False)
    assert -fitted.a == pytest.approx(reference.coef_[0, 0], abs=1e-6)
    assert -fitted.b == pytest.approx(reference.intercept_[0], abs=1e-6)


def test_platt_is_not_certain_after_a_handful_of_rows():
    confidence = fit_platt([1.0, 2.0, 3.0], [1, 1, 1]).confidence(np.array([10.0]))
    assert confidence[0] == pytest.approx(0.8)


def test_platt_survives_large_evidence():
    fitted = fit_platt([-4000.0, -3000.0, 3000.0, 4000.0], [0, 1, 0, 1])
    assert np.isfinite(fitted.confidence(np.array([-1e6, 1e6]))).all()


@pytest.mark.parametrize(
    ("evidence", "targets", "why"),
    [
        ([1.0, np.nan], [0, 1], "NaN"),
        ([1.0, 2.0], [0, 0.5], "other than 0 and 1"),
        ([1.0, 2.0, 3.0], [0, 1], "lengths differ"),
        ([], [], "empty"),
    ],
)
def test_bad_data_is_refused(evidence, targets, why):
    with pytest.raises(InvalidInput, match=why):
        fit_platt(evidence, targets)


def test_platt_without_smoothing_needs_both_outcomes():
    with pytest.raises(InvalidInput, match="both outcomes"):
        fit_platt([1.0, 2.0], [1, 1], smoothing=False)
