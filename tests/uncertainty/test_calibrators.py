from dataclasses import replace

import numpy as np
import pytest

from demur.uncertainty.calibrators import (
    CALIBRATORS,
    FOR_SHARES,
    OF_ANSWERS,
    OF_SCORES,
    crossfitted,
    evidence,
    fit_calibrator,
)
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.class_probability import softmax_response
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.platt import fit_platt


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_unknown_evidence_gives_an_unknown_confidence(kind):
    recipe, evidence, target = CALIBRATORS[kind](), np.array([0.1, 0.4, 0.6, 0.9]), np.array([0.0, 1.0, 0.0, 1.0])
    unknown = np.array([0.4, np.nan])
    if recipe.reads == "logits":
        evidence, unknown = np.column_stack([np.zeros(4), evidence]), np.column_stack([np.zeros(2), unknown])
    if recipe.reads in OF_ANSWERS:
        evidence, unknown = (np.stack([[p, 1 - p], [p * 0 + 1, p * 0]]).transpose(2, 0, 1) for p in (evidence, unknown))
    confidence = recipe.fit(evidence, target).confidence(unknown)
    assert 0 <= confidence[0] <= 1
    assert np.isnan(confidence[1])


def labelled(n=60, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n)
    return LabelledOutput.of_classes(Output.from_logits(rng.normal(size=(n, 3)) + np.eye(3)[truth]), truth)


def scored(rows):
    u = softmax_response(rows.output.probabilities)
    return u, (rows.output.probabilities.argmax(axis=1) == rows.classes).astype(float)


def beside_the_label(p):
    return np.stack([p, p == p.max(axis=1, keepdims=True)], axis=1)


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_each_reads_its_evidence_and_is_fitted_to_its_target(kind):
    rows = labelled(n=400)
    u, quality = scored(rows)
    recipe = CALIBRATORS[kind]()
    by_hand = {
        "score": lambda: (-u, quality),
        "probability": lambda: (1 - u, quality),
        "logits": lambda: (rows.output.logits, rows.classes),
        "answers": lambda: (beside_the_label(rows.output.probabilities), quality),
        "classes": lambda: (beside_the_label(rows.output.probabilities), rows.classes),
    }[recipe.reads]()
    fitted = fit_calibrator(recipe, u, quality, rows)
    confidence = fitted.confidence(evidence(fitted.reads, u, rows.output))
    np.testing.assert_array_equal(confidence, recipe.fit(*by_hand).confidence(by_hand[0]))
    assert ((confidence >= 0) & (confidence <= 1)).all()
    if kind != "histogram_binning" and recipe.reads in OF_SCORES:  # bins need not rise, others look at more
        assert (np.diff(confidence[np.argsort(u, kind="stable")]) <= 1e-12).all()  # less sure, less confident


@pytest.mark.parametrize("kind", sorted(FOR_SHARES))
def test_some_are_fitted_to_shares(kind):
    rows = labelled()
    u, _ = scored(rows)
    assert np.isfinite(fit_calibrator(CALIBRATORS[kind](), u, 1 - u, rows).confidence(-u)).all()


@pytest.mark.parametrize("kind", sorted({"platt", "beta", "histogram_binning"}))
def test_the_others_want_right_or_wrong(kind):
    rows = labelled()
    u, _ = scored(rows)
    with pytest.raises(InvalidInput, match="other than 0 and 1"):
        fit_calibrator(CALIBRATORS[kind](), u, 1 - u, rows)


@pytest.mark.parametrize("kind", ["beta", "histogram_binning"])
@pytest.mark.parametrize(("change", "span"), [(lambda u: u * 7, "0.* to 4"), (lambda u: u - 0.5, "-0.3.* to 0.1")])
def test_a_score_that_is_no_probability_is_refused_with_what_to_do(kind, change, span):
    rows = labelled()
    u, quality = scored(rows)
    why = rf"calibration reads 1 - score as a probability, and this score goes from {span}.*softmax_response.*isotonic"
    with pytest.raises(InvalidInput, match=why):
        fit_calibrator(CALIBRATORS[kind](), change(u), quality, rows)


@pytest.mark.parametrize("kind", CALIBRATORS)
def test_crossfitted_confidence_does_not_know_its_own_outcome(kind):
    """Changing what is known of one row changes the confidence of others, never its own or that of its fold."""
    rows = labelled()
    u, quality = scored(rows)

    def confidence(rows, quality):
        rng = np.random.default_rng(7)
        return crossfitted(CALIBRATORS[kind](), u, quality, rows, folds=5, rng=rng)

    before = confidence(rows, quality)
    for i in (0, 17, 59):
        other_truth, other_quality = rows.truth.copy(), quality.copy()
        other_truth[i] = np.roll(other_truth[i], 1)
        other_quality[i] = 1 - quality[i]
        other = LabelledOutput(output=rows.output, truth=other_truth, exclusive=True)
        after = confidence(other, other_quality)
        assert after[i] == before[i]
        if kind not in ("min_max",):  # which reads no outcomes
            assert (after != before).any()
            assert (after == before).sum() >= 60 / 5


def test_a_row_is_calibrated_by_the_other_folds():
    rows = labelled()
    u, quality = scored(rows)
    member = np.random.default_rng(7).permutation(60) % 5
    wanted = np.empty(60)
    for fold in range(5):
        wanted[member == fold] = fit_isotonic(-u[member != fold], quality[member != fold]).confidence(
            -u[member == fold]
        )
    got = crossfitted(CALIBRATORS["isotonic"](), u, quality, rows, folds=5, rng=np.random.default_rng(7))
    np.testing.assert_array_equal(got, wanted)


def test_platt_on_log_odds_can_leave_a_calibrated_probability_as_it_is():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, size=20_000)
    right = (rng.random(20_000) < p).astype(float)
    on_odds = CALIBRATORS["platt"](log_odds=True)
    assert on_odds.reads == "probability"
    fitted = on_odds.fit(p, right)
    assert fitted.reads == "probability"
    assert np.abs(fitted.confidence(p) - p).max() < 0.02
    assert np.abs(CALIBRATORS["platt"]().fit(p - 1, right).confidence(p - 1) - p).max() > 0.03  # one curve cannot
    assert np.isfinite(fitted.confidence(np.array([0.0, 1.0]))).all()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("isotonic", {}),
        ("platt", {"smoothing": False}),
        ("platt", {"smoothing": False, "log_odds": True}),
        ("beta", {}),
        ("histogram_binning", {}),
        ("temperature", {}),
        ("min_max", {}),
        ("vector", {}),
        ("dirichlet", {}),
    ],
)
def test_a_row_of_weight_three_counts_like_three_rows(name, settings):
    rng = np.random.default_rng(4)
    times = rng.choice([1, 3], size=120)
    rows = labelled(n=120)
    u, quality = scored(rows)
    recipe = CALIBRATORS[name](**settings)
    copied = np.repeat(np.arange(120), times)
    weighted = fit_calibrator(recipe, u, quality, replace(rows, weights=times / 7))
    as_copies = fit_calibrator(recipe, u[copied], quality[copied], rows.rows(copied))
    plain = fit_calibrator(recipe, u, quality, rows)
    reads = evidence(recipe.reads, u, rows.output)
    np.testing.assert_allclose(weighted.confidence(reads), as_copies.confidence(reads), rtol=1e-7)
    alike = fit_calibrator(recipe, u, quality, replace(rows, weights=np.full(120, 0.3)))
    np.testing.assert_array_equal(alike.confidence(reads), plain.confidence(reads))
    if name != "min_max":
        assert np.abs(weighted.confidence(reads) - plain.confidence(reads)).max() > 1e-3


def test_platt_smooths_by_how_many_rows_unequal_weights_are_worth():
    evidence_, right = np.arange(10.0), np.array([0, 1] * 5)
    weights = np.array([1.0] * 9 + [1e6])
    assert 0.3 < fit_platt(evidence_, right, weights=weights).confidence(np.array([9.0]))[0] < 0.8  # one row, in effect
