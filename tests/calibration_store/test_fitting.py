import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import binom

from demur.audit.held_out import calibration_report, held_out_report
from demur.calibration_store.fitting import fit_selectors
from demur.calibration_store.rows_apart import TooFewRows, parts_of, split
from demur.policies.all_of import AllOf, InDistribution
from demur.policies.cheapest_label import LeastCost
from demur.policies.label_thresholds import GivenLabelLimit, MaxF1LabelLimits
from demur.policies.rejection_rate import RejectionRate
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import FitSplit, SelectorRecipe
from demur.policies.threshold import TargetRisk
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.combination import Hybrid, Logistic
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES

REPORTS = {"report": held_out_report, "cross_report": calibration_report}


def test_parts_are_disjoint_and_each_gets_its_share_of_the_rows_that_thinning_left():
    plain = np.arange(200) < 30
    first, second = split(np.arange(200), 0.6, np.random.default_rng(0), plain)
    assert sorted([*first, *second]) == list(range(200))
    assert len(first) == 120
    assert plain[first].sum() == 18


def test_every_row_is_as_likely_to_be_in_the_first_part():
    rng, plain = np.random.default_rng(1), np.arange(7) < 2
    drawn = np.bincount(np.concatenate([split(np.arange(7), 0.3, rng, plain)[0] for _ in range(7_000)]))
    assert drawn.tolist() == pytest.approx([2_000] * 7, abs=6 * np.sqrt(2_000 * 5 / 7))


@pytest.mark.slow
def test_the_report_is_about_rows_outside_the_fit(recipe, rows):
    fit = fit_selectors({"m": recipe}, {"m": rows}, report_share=0.4, rng=np.random.default_rng(0), **REPORTS)
    assert (fit.n_fitted, fit.n_reported) == (120, 80)
    assert fit.report["accuracy"]["n"] == 80
    for name in ("ece", "ece_before", "auroc.entropy", "prr.entropy", "coverage", "selective_risk"):
        assert name in fit.report


@pytest.mark.slow
def test_the_same_seed_gives_the_same_fit(recipe, rows):
    fits = [
        fit_selectors({"m": recipe}, {"m": rows}, report_share=0.4, rng=np.random.default_rng(7), **REPORTS)
        for _ in range(2)
    ]
    assert fits[0].report == fits[1].report
    assert fits[0].selector.policy == fits[1].selector.policy


@pytest.mark.parametrize("n", [1, 10, 30])
def test_too_few_rows_are_refused(recipe, rows, n):
    with pytest.raises(TooFewRows, match=f"{n} labelled rows leave"):
        fit_selectors(
            {"m": recipe}, {"m": rows.rows(np.arange(n))}, report_share=0.4, rng=np.random.default_rng(0), **REPORTS
        )


def numbered(n=240, classes=3, exclusive=True):
    """Rows that can be recognised: the first feature is their number."""
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(n, classes)) * 2
    output = Output.from_logits(
        logits,
        link="softmax" if exclusive else "sigmoid",
        embedding=np.column_stack([np.arange(n), rng.normal(size=(n, 2))]),
    )
    if exclusive:
        return LabelledOutput.of_classes(output, rng.integers(classes, size=n))
    return LabelledOutput(output=output, truth=rng.random((n, classes)) < output.probabilities, exclusive=False)


FREE, LEARNT = "softmax_response", "mahalanobis"
HYBRID = {"mix": Hybrid(epistemic=LEARNT, aleatoric=FREE)}
LOGISTIC_OF_FREE = {"mix": Logistic(of=(FREE, "entropy"))}
EMPIRICAL = TargetRisk(max_risk=0.1)
PROMISE, OF_CONFIDENCE = SelectiveRisk(max_risk=0.4), SelectiveRisk(max_risk=0.4, method="ltt")
STRANGE = InDistribution(score=LEARNT, quantile=0.9)


@pytest.mark.parametrize(
    ("confidence", "combinations", "policy", "shares", "apart"),
    [
        # which share of the rows is for statistics, mixing, calibration and rule; what is named together has none in
        # common
        (FREE, {}, EMPIRICAL, (1, 1, 1, 1), []),
        (FREE, {}, PROMISE, (1, 1, 1, 1), []),  # the rule ranks the score
        (FREE, {}, OF_CONFIDENCE, (1, 1, 1 / 3, 2 / 3), ["calibration rule"]),
        (FREE, HYBRID, PROMISE, (1 / 3, 2 / 3, 1, 1), ["statistics mixing"]),  # the mix is only reported
        (LEARNT, {}, EMPIRICAL, (1 / 2,) * 4, ["statistics calibration", "statistics rule"]),
        (LEARNT, {}, PROMISE, (1 / 3, 2 / 3, 2 / 3, 2 / 3), ["statistics calibration", "statistics rule"]),
        (LEARNT, {}, OF_CONFIDENCE, (1 / 4, 3 / 4, 1 / 4, 1 / 2), ["statistics calibration rule"]),
        # a gate that was fitted on the rows of the calibrator must not stop rows of the rule
        (
            FREE,
            {},
            AllOf(gates=(STRANGE,), rule=PROMISE),
            (1 / 4, 3 / 4, 1 / 4, 1 / 2),
            ["statistics calibration rule"],
        ),
        (FREE, {}, AllOf(gates=(InDistribution(score=FREE, max=0.4),), rule=PROMISE), (1, 1, 1, 1), []),
        ("mix", LOGISTIC_OF_FREE, EMPIRICAL, (1, 1 / 2, 1 / 2, 1 / 2), ["mixing calibration", "mixing rule"]),
        ("mix", HYBRID, EMPIRICAL, (1 / 3,) * 4, ["statistics mixing calibration", "statistics mixing rule"]),
        ("mix", HYBRID, PROMISE, (1 / 4, 1 / 4, 1 / 2, 1 / 2), ["statistics mixing calibration", "statistics rule"]),
        ("mix", HYBRID, OF_CONFIDENCE, (1 / 5, 1 / 5, 1 / 5, 2 / 5), ["statistics mixing calibration rule"]),
    ],
)
def test_rows_are_apart_where_one_thing_builds_on_another_and_else_shared(
    confidence, combinations, policy, shares, apart
):
    recipe = SelectorRecipe(
        scores={name: SCORES[name]() for name in (FREE, "entropy", LEARNT)},
        combinations=combinations,
        confidence_score=confidence,
        calibrator=CALIBRATORS["isotonic"](),
        policy=policy,
    )
    assert_parts(recipe, numbered(), shares, apart)


@pytest.mark.parametrize(
    ("predictor", "policy", "shares", "apart"),
    [
        (GivenLabelLimit(limit=0.5), EMPIRICAL, (1, 1, 1, 1), []),
        (GivenLabelLimit(limit=0.5), PROMISE, (1, 1, 1, 1), []),
        (GivenLabelLimit(limit=0.5), OF_CONFIDENCE, (1, 1, 1 / 3, 2 / 3), ["calibration rule"]),
        (MaxF1LabelLimits(), EMPIRICAL, (1 / 2,) * 4, ["statistics calibration", "statistics rule"]),
        (MaxF1LabelLimits(), PROMISE, (1 / 3, 2 / 3, 2 / 3, 2 / 3), ["statistics calibration", "statistics rule"]),
        (MaxF1LabelLimits(), OF_CONFIDENCE, (1 / 4, 3 / 4, 1 / 4, 1 / 2), ["statistics calibration rule"]),
    ],
)
def test_fitted_limits_of_labels_judge_other_rows_than_those_they_were_fitted_on(predictor, policy, shares, apart):
    recipe = SelectorRecipe(
        scores={"binary_entropy": SCORES["binary_entropy"]()},
        confidence_score="binary_entropy",
        calibrator=CALIBRATORS["isotonic"](),
        policy=policy,
        predictor=predictor,
    )
    assert_parts(recipe, numbered(exclusive=False), shares, apart)


def assert_parts(recipe, rows, shares, apart):
    parts = parts_of(np.arange(len(rows)), np.ones(len(rows), dtype=bool), [recipe], np.random.default_rng(0)).of(rows)
    held = {
        name: getattr(parts, name).output.embedding[:, 0].tolist()
        for name in ("statistics", "mixing", "calibration", "rule")
    }
    assert [len(set(numbers)) for numbers in held.values()] == [
        pytest.approx(len(rows) * share, abs=1) for share in shares
    ]
    assert set().union(*held.values()) == set(range(len(rows)))  # no label is wasted
    for names in apart:
        for one, other in itertools.combinations(names.split(), 2):
            assert not set(held[one]) & set(held[other]), (one, other)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sgr", "ltt", "ltt_fixed_sequence"])
def test_the_promised_risk_is_kept_through_calibration(method):
    """Of two labels, the one with probability p > 1/2 is right with probability p**2: overconfident on purpose.

    A limit on the calibrated confidence is one on p, above which the true risk is the mean of 1 - p**2.
    """
    max_risk, delta, draws = 0.3, 0.2, 150
    recipe = SelectorRecipe(
        scores={FREE: SCORES[FREE]()},
        confidence_score=FREE,
        calibrator=CALIBRATORS["isotonic"](),
        policy=SelectiveRisk(max_risk=max_risk, delta=delta, method=method, limits=tuple(np.arange(50, 95, 5) / 100)),
    )
    grid = np.linspace(0.5, 1, 401)
    every_p = Output.from_logits(logit(np.clip(grid, 0, 1 - 1e-12))[:, None])
    rng = np.random.default_rng(11)
    answering = broken = 0
    for _ in range(draws):
        p = rng.uniform(0.5, 1, size=500)
        first = rng.random(500) < 0.5  # which of the two labels is the probable one
        right = rng.random(500) < p**2
        rows = LabelledOutput.of_classes(
            Output.from_logits(np.where(first, -logit(p), logit(p))[:, None]), np.where(first == right, 0, 1)
        )
        fit = fit_selectors(
            {"m": recipe},
            {"m": rows},
            report=lambda *_: {},
            cross_report=lambda *_: {},
            report_share=0.1,
            rng=np.random.default_rng(rng.integers(2**32)),
        )
        answered = fit.selector.decide(every_p).decisions.answered
        if answered.any():
            answering += 1
            broken += np.mean(1 - grid[answered] ** 2) > max_risk + 2e-3  # the grid's own error is below that
    assert answering > draws / 2  # else it would be kept by silence
    assert broken <= binom.ppf(0.999, draws, delta)


def test_a_calibrator_that_cannot_be_fitted_without_every_fold_is_fitted_all_the_same(recipe, rows):
    one_wrong = np.flatnonzero(rows.output.probabilities.argmax(axis=1) != rows.classes)[:1]
    right = np.flatnonzero(rows.output.probabilities.argmax(axis=1) == rows.classes)
    few_errors = rows.rows(np.sort(np.concatenate([one_wrong, right])))
    beta = replace(
        recipe, scores={"margin": SCORES["margin"]()}, confidence_score="margin", calibrator=CALIBRATORS["beta"]()
    )
    for seed in range(20):  # until the error is among the rows that are fitted
        try:
            rng = np.random.default_rng(seed)
            fit = fit_selectors({"m": beta}, {"m": few_errors}, report_share=0.4, rng=rng, **REPORTS)
        except InvalidInput:
            continue
        break
    assert fit.crossfit == {}


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", ["isotonic", "histogram_binning", "platt"])
def test_a_rejection_rate_is_held_whatever_the_calibrator_ties(calibrator):
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(800, 3)) * 2
    output = Output.from_logits(logits, link="softmax")
    truth = np.array([rng.choice(3, p=p) for p in output.probabilities])
    recipe = SelectorRecipe(
        scores={"softmax_response": SCORES["softmax_response"]()},
        confidence_score="softmax_response",
        calibrator=CALIBRATORS[calibrator](),
        policy=RejectionRate(rate=0.1),
    )
    rows = {"m": LabelledOutput.of_classes(output, truth)}
    fit = fit_selectors({"m": recipe}, rows, report_share=0.4, rng=np.random.default_rng(0), **REPORTS)
    assert fit.selector.policy.held == pytest.approx(0.1, abs=0.005)
    assert fit.report["coverage"]["value"] == pytest.approx(0.9, abs=0.05)
    assert not any("rejection_rate" in remark for remark in fit.remarks)


def one_bad_label(n, seed):
    """Rows of three labels, of which the model says the last wrongly half of the time, whatever it thinks of it."""
    rng = np.random.default_rng(seed)
    output = Output.from_logits(rng.normal(size=(n, 3)) * 2)
    said = output.probabilities.argmax(axis=1)
    wrong = rng.random(n) < np.where(said == 2, 0.5, 0.02)
    return LabelledOutput.of_classes(output, np.where(wrong, (said + 1) % 3, said))


def with_correctness(policy, **changes):
    return SelectorRecipe(
        scores={"softmax_response": SCORES["softmax_response"]()},
        confidence_score="softmax_response",
        calibrator=CALIBRATORS["correctness"](),
        policy=policy,
        **changes,
    )


@pytest.mark.parametrize("policy", [TargetRisk(max_risk=0.05), SelectiveRisk(max_risk=0.08)])
def test_correctness_holds_the_label_that_the_model_says_wrongly(policy):
    rows = {"m": one_bad_label(2500, 0)}
    fit = fit_selectors(
        {"m": with_correctness(policy)}, rows, report_share=0.4, rng=np.random.default_rng(0), **REPORTS
    )
    (said,) = [remark for remark in fit.remarks if remark.startswith("correctness")]
    assert "goes by the whole output of the model (sorted, label, vector)" in said
    assert fit.selector.calibrator.nll < fit.selector.calibrator.score_nll
    assert fit.report["coverage"]["value"] == pytest.approx(2 / 3, abs=0.08)
    fresh = one_bad_label(4000, 1)
    judged = fit.selector.decide(fresh.output)
    answered = np.array([action == "answer" for action in judged.decisions.actions])
    right = (judged.predicted == fresh.truth).all(axis=1)
    assert (1 - right[answered]).mean() < policy.max_risk


def test_correctness_falls_back_to_the_score_and_says_so():
    rng = np.random.default_rng(5)
    output = Output.from_logits(rng.normal(size=(300, 3)) * 2)
    truth = np.array([rng.choice(3, p=p) for p in output.probabilities])
    for n, why in (
        (300, "by the probability of the given label alone; its cross-fitted loss is"),
        (40, "too few right"),
    ):
        rows = {"m": LabelledOutput.of_classes(output, truth).rows(np.arange(n))}
        recipe = with_correctness(TargetRisk(max_risk=0.1))
        fit = fit_selectors({"m": recipe}, rows, report_share=0.4, rng=np.random.default_rng(0), **REPORTS)
        assert fit.selector.calibrator.use == "score"
        assert any(why in remark for remark in fit.remarks)


def test_correctness_that_falls_back_keeps_the_order_of_the_score():
    """Also of probabilities that differ in the tenth digit, as those of language models do."""
    p = 1 - np.logspace(-11, -1, 60)
    output = Output.from_probabilities(np.column_stack([p, 1 - p]))
    rows = LabelledOutput.of_classes(output, (np.arange(60) % 20 == 19).astype(int))
    recipe = with_correctness(TargetRisk(max_risk=0.2))
    selector = recipe.fit(FitSplit(**dict.fromkeys(("statistics", "mixing", "calibration", "rule"), rows)))
    assert (np.diff(selector.decide(output).confidence) < 0).all()


def test_a_limit_without_a_promise_sees_confidence_of_rows_that_were_not_fitted_on():
    """A model of noise is surer of the rows that it was fitted on; a limit fitted there would answer too much."""
    rng = np.random.default_rng(2)
    output = Output.from_probabilities(rng.dirichlet(np.ones(40), size=600))
    said = output.probabilities.argmax(axis=1)
    rows = LabelledOutput.of_classes(output, np.where(rng.random(600) < 0.5, (said + 1) % 40, said))
    recipe = with_correctness(RejectionRate(rate=0.5))
    selector = recipe.fit(FitSplit(**dict.fromkeys(("statistics", "mixing", "calibration", "rule"), rows)))
    own = selector.decide(output).confidence
    assert not np.isclose(selector.policy.limit, np.quantile(own, 0.5), atol=1e-6)


def test_correctness_is_about_the_label_that_is_given():
    """By costs the label `2` is given, though it is never the most probable one: confidence is that of this answer."""
    rows = one_bad_label(800, 3)
    costs = ((0, 1, 9), (1, 0, 9), (0.1, 0.1, 0))
    recipe = with_correctness(TargetRisk(max_risk=0.5), predictor=LeastCost(costs=costs))
    selector = recipe.fit(FitSplit(**dict.fromkeys(("statistics", "mixing", "calibration", "rule"), rows)))
    judged = selector.decide(rows.output)
    right = (judged.predicted == rows.truth).all(axis=1)
    given = judged.predicted[:, 2]
    assert given.mean() > 0.5
    assert judged.confidence[given].mean() == pytest.approx(right[given].mean(), abs=0.03)


@pytest.mark.slow
def test_a_fit_says_when_ties_leave_a_rejection_rate_unheld():
    p = np.tile([[0.7, 0.2, 0.1]], (300, 1))
    recipe = SelectorRecipe(
        scores={"entropy": SCORES["entropy"]()},
        confidence_score="entropy",
        calibrator=CALIBRATORS["platt"](),
        policy=RejectionRate(rate=0.1),
    )
    output = Output.from_logits(np.log(p), link="softmax")
    rows = {"m": LabelledOutput.of_classes(output, np.arange(300) % 3)}
    fit = fit_selectors({"m": recipe}, rows, report_share=0.4, rng=np.random.default_rng(0), **REPORTS)
    assert any("10.00% was asked for, and the limit holds 0.00%" in remark for remark in fit.remarks)
