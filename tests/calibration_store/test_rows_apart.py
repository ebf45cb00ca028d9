"""Fits on rows that stand for unequal numbers of records."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import binom

from demur.audit.held_out import calibration_report, held_out_report, rank_report
from demur.calibration_store.fitting import fit_selectors
from demur.calibration_store.rows_apart import TooFewRows, rows_apart, thinned
from demur.policies.conformal_sets import SplitSets
from demur.policies.label_thresholds import GivenLabelLimit
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.policies.threshold import TargetRisk
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES

REPORTS = {"report": held_out_report, "cross_report": calibration_report}
SILENT = {"report": lambda *_: {}, "cross_report": lambda *_: {}}


def recipe_for(policy, **changes):
    settings = {
        "scores": {"softmax_response": SCORES["softmax_response"]()},
        "confidence_score": "softmax_response",
        "calibrator": CALIBRATORS["platt"](),
        "policy": policy,
        "sets": SplitSets(alpha=0.1),
    }
    return SelectorRecipe(**{**settings, **changes})


def binary(rng, n):
    """The more probable of two labels, with probability p > 1/2, is right with probability p**2: overconfident."""
    p = rng.uniform(0.5, 1, size=n)
    first, right = rng.random(n) < 0.5, rng.random(n) < p**2
    output = Output.from_logits(np.where(first, -logit(p), logit(p))[:, None])
    return p, LabelledOutput.of_classes(output, np.where(first == right, 0, 1))


def drawn_labels(rng, n, *, held_below=0.8, spot_check=0.1):
    """Of `n` records every held one is labelled, and one in ten of those that were answered."""
    p, rows = binary(rng, n)
    chance = np.where(p < held_below, 1.0, spot_check)
    labelled = rng.random(n) < chance
    return replace(rows, weights=1 / chance).rows(labelled)


def test_what_thinning_leaves_is_like_the_traffic():
    rng = np.random.default_rng(0)
    rows = drawn_labels(rng, 200_000)
    surest = rows.output.probabilities.max(axis=1)
    assert np.mean(surest < 0.8) > 0.9  # of the labelled rows; of the traffic it is 60%
    kept = thinned(rows.weights, rng)
    assert np.mean(surest[kept] < 0.8) == pytest.approx(0.6, abs=0.01)
    assert kept[rows.weights == rows.weights.max()].all()
    assert kept.sum() == pytest.approx(20_000, rel=0.02)
    assert thinned(np.full(50, 3.0), rng).all()


def test_only_the_calibrator_sees_rows_that_were_thinned_away():
    rng = np.random.default_rng(1)
    rows = drawn_labels(rng, 4_000)
    apart = rows_apart(
        len(rows),
        [recipe_for(SelectiveRisk(max_risk=0.4, method="ltt"))],
        report_share=0.4,
        rng=rng,
        weights=rows.weights,
    )
    parts = apart.of(rows)
    assert len(parts.plain) < len(parts.calibration) / 2
    assert parts.calibration.weights is not None
    for part in (parts.statistics, parts.mixing, parts.rule, parts.plain):
        assert part.weights is None
        assert np.mean(part.output.probabilities.max(axis=1) < 0.8) == pytest.approx(0.6, abs=0.15)
    assert set(apart.counted) <= set(apart.calibration)
    assert not set(apart.rule) & set(apart.calibration)
    assert not set(apart.reported) & {*apart.calibration, *apart.rule}
    assert len(apart.reported) == pytest.approx(0.4 * apart.n_plain, abs=3)
    assert apart.share_kept == pytest.approx(apart.n_plain / len(rows))


def test_equal_weights_change_nothing():
    rows = binary(np.random.default_rng(2), 300)[1]
    recipe = recipe_for(TargetRisk(max_risk=0.3))
    fits = []
    for weights in (None, np.full(300, 5.0)):
        weighted = replace(rows, weights=weights)
        fits.append(
            fit_selectors({"m": recipe}, {"m": weighted}, report_share=0.4, rng=np.random.default_rng(3), **SILENT)
        )
    assert fits[0].n_plain is None
    assert fits[1].n_plain == 300


def test_too_few_rows_after_thinning_are_refused():
    rows = drawn_labels(np.random.default_rng(4), 200)
    with pytest.raises(TooFewRows, match="are left after thinning, leave"):
        fit_selectors(
            {"m": recipe_for(TargetRisk(max_risk=0.3))},
            {"m": rows},
            report_share=0.4,
            rng=np.random.default_rng(0),
            **REPORTS,
        )


def test_a_calibrator_learns_from_weighted_rows_what_the_traffic_is_like():
    """Among the answered ones only the spot checks say how often they are right; among the labelled ones, most of those
    of one confidence were held because of their group, and are wrong more often."""
    rng = np.random.default_rng(5)
    n = 40_000
    p = rng.choice([0.6, 0.9], size=n)
    hard = rng.random(n) < 0.3  # held whatever the confidence, and right half as often
    right = rng.random(n) < np.where(hard, p / 2, p)
    chance = np.where(hard, 1.0, 0.1)
    labelled = rng.random(n) < chance
    output = Output.from_logits(logit(p)[:, None])
    rows = replace(LabelledOutput.of_classes(output, right.astype(int)), weights=1 / chance).rows(labelled)
    recipe = recipe_for(TargetRisk(max_risk=0.3), calibrator=CALIBRATORS["isotonic"]())
    options = {"report_share": 0.3, **SILENT}
    fit = fit_selectors({"m": recipe}, {"m": rows}, rng=np.random.default_rng(0), **options)
    asked = Output.from_logits(logit([[0.9]]))
    truth = 0.7 * 0.9 + 0.3 * 0.45
    assert fit.selector.decide(asked).confidence[0] == pytest.approx(truth, abs=0.03)
    unweighted = replace(rows, weights=None)
    biased = fit_selectors({"m": recipe}, {"m": unweighted}, rng=np.random.default_rng(0), **options)
    assert biased.selector.decide(asked).confidence[0] < truth - 0.1


@pytest.mark.slow
@pytest.mark.parametrize("weigh", [True, False])
def test_a_promise_from_spot_checked_traffic_is_kept(weigh):
    """Records that were held for another reason than their confidence, and are right more often, are all labelled, and
    a tenth of the others. A limit fitted on the labelled rows as they are is too low, and breaks its promise nearly
    always; one fitted on what thinning leaves breaks it no more often than it says."""
    max_risk, delta, draws = 0.25, 0.2, 120
    recipe = recipe_for(
        SelectiveRisk(max_risk=max_risk, delta=delta, method="ltt", limits=tuple(np.arange(50, 100, 2) / 100))
    )
    rng = np.random.default_rng(11)

    def risk_above(answered, p):
        """Of what is answered, whatever the group: 30% of the records are easy, and right with certainty."""
        wrong = 1 - (0.3 * 1.0 + 0.7 * p**2)
        return np.mean(wrong[answered])

    grid = np.linspace(0.5, 1, 401)
    every_p = Output.from_logits(logit(np.clip(grid, 0, 1 - 1e-12))[:, None])
    broken = answering = 0
    for _ in range(draws):
        n = 6_000
        p = rng.uniform(0.5, 1, size=n)
        easy = rng.random(n) < 0.3
        right = easy | (rng.random(n) < p**2)
        first = rng.random(n) < 0.5
        chance = np.where(easy, 1.0, 0.1)
        labelled = rng.random(n) < chance
        rows = LabelledOutput.of_classes(
            Output.from_logits(np.where(first, -logit(p), logit(p))[:, None]), np.where(first == right, 0, 1)
        )
        rows = replace(rows, weights=1 / chance if weigh else None).rows(labelled)
        fit = fit_selectors(
            {"m": recipe}, {"m": rows}, report_share=0.1, rng=np.random.default_rng(rng.integers(2**32)), **SILENT
        )
        answered = fit.selector.decide(every_p).decisions.answered
        if answered.any():
            answering += 1
            broken += risk_above(answered, grid) > max_risk + 2e-3  # the grid's own error is below that
    assert answering > draws / 2  # else it would be kept by silence
    if weigh:
        assert broken <= binom.ppf(0.999, draws, delta)
    else:
        assert broken > 0.9 * draws


@pytest.mark.slow
def test_a_cascade_is_reported_with_the_scores_that_all_models_have_and_promises_once():
    rng = np.random.default_rng(6)
    rows = drawn_labels(rng, 6_000)
    noisy = rows.output.logits + rng.normal(size=rows.output.logits.shape) * 3
    policy = SelectiveRisk(max_risk=0.4, method="ltt", limits=(0.5, 0.6, 0.7))
    small = recipe_for(policy, scores={name: SCORES[name]() for name in ("softmax_response", "entropy")})
    models = {"small": replace(rows, output=Output.from_logits(noisy)), "large": rows}
    fit = fit_selectors(
        {"small": small, "large": recipe_for(policy)},
        models,
        report_share=0.4,
        rng=np.random.default_rng(0),
        rank_report=rank_report,
        **REPORTS,
    )
    assert "auroc.softmax_response" in fit.report
    assert "auroc.entropy" not in fit.report
    assert fit.report["auroc.confidence"]["lower"] < fit.report["auroc.confidence"]["upper"]
    assert {name: ranking["n"] for name, ranking in fit.ranking.items()} == dict.fromkeys(models, fit.n_reported)
    assert [(name, one.share) for name, one in fit.promises] == [
        ("small", "of the answers are wrong"),
        ("small", "of the sets lack the right label"),
        ("large", "of the sets lack the right label"),
    ]


def test_a_promise_that_too_many_errors_break_is_a_shortfall_too():
    rows = binary(np.random.default_rng(7), 2_000)[1]
    recipe = recipe_for(SelectiveRisk(max_risk=0.001, method="ltt", limits=(0.5, 0.6)))
    options = {"report_share": 0.2, "rng": np.random.default_rng(0), **SILENT}
    assert "1,067 labelled rows for the rule" in fit_selectors({"m": recipe}, {"m": rows}, **options).shortfalls[0].why
    recipe = recipe_for(SelectiveRisk(max_risk=0.05, method="ltt", limits=(0.5, 0.6)))
    (short,) = fit_selectors({"m": recipe}, {"m": rows}, **options).shortfalls
    assert short.of == "rule"
    assert "fewer errors among the most confident, or more labels, would allow it" in short.why


def test_a_score_without_meaning_is_a_shortfall():
    rows = binary(np.random.default_rng(8), 1_000)[1]
    meaningless = replace(rows, output=replace(rows.output, embedding=np.random.default_rng(9).normal(size=(1_000, 2))))
    recipe = recipe_for(
        TargetRisk(max_risk=0.3), scores={"mahalanobis": SCORES["mahalanobis"]()}, confidence_score="mahalanobis"
    )
    options = {"report_share": 0.4, "rng": np.random.default_rng(0), "rank_report": rank_report, **SILENT}
    (short,) = fit_selectors({"m": recipe}, {"m": meaningless}, **options).shortfalls
    assert short.why.startswith("mahalanobis ranks errors no better than chance (AUROC 0.")
    of_logits = recipe_for(TargetRisk(max_risk=0.3), calibrator=CALIBRATORS["temperature"]())
    assert fit_selectors({"m": of_logits}, {"m": rows}, **options).shortfalls == []


@pytest.mark.parametrize("useful", [True, False])
def test_degrees_of_being_right_are_ranked_at_their_mean(useful):
    """Of six labels hardly any row gets all right, so only the degree can tell whether the score is worth anything."""
    rng = np.random.default_rng(10)
    noise = rng.uniform(0.2, 4, size=(900, 1))
    truth = rng.random((900, 6)) < 0.5
    logits = (4 * truth - 2) / noise + rng.normal(size=(900, 6))
    if not useful:
        logits = np.sign(logits) * rng.uniform(0.1, 3, size=(900, 1))
    rows = LabelledOutput(output=Output.from_logits(logits, link="sigmoid"), truth=truth, exclusive=False)
    recipe = recipe_for(
        TargetRisk(max_risk=0.3),
        scores={"binary_entropy": SCORES["binary_entropy"]()},
        confidence_score="binary_entropy",
        calibrator=CALIBRATORS["isotonic"](),
        predictor=GivenLabelLimit(limit=0.5),
        right="jaccard",
        sets=None,
    )
    options = {"report_share": 0.4, "rng": np.random.default_rng(0), "rank_report": rank_report, **SILENT}
    short = fit_selectors({"m": recipe}, {"m": rows}, **options).shortfalls
    assert [one.why.split(" (")[0] for one in short] == (
        [] if useful else ["binary_entropy ranks predictions below the average no better than chance"]
    )
