"""Verdicts without the errors of reviewers, and those on what they said beside them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from demur.audit.ledger.ledger import CodedColumn
from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.page import page
from demur.audit.report.plan import Settings
from demur.audit.report.reviewer_correction import correction_of
from demur.audit.reviewer_error import reviewer_error
from demur.policies.promise import ANSWERS_LACK
from demur.review.disagreement import DecidedCheck
from tests.audit.report.simulated import simulated
from tests.audit.report.simulated_audits import THRESHOLD, in_brief

SENSITIVITY, SPECIFICITY = 0.9, 0.97


def looks(rng, wrong=40, right=200, sensitivity=SENSITIVITY, specificity=SPECIFICITY):
    hits, cleared = rng.binomial(wrong, sensitivity), rng.binomial(right, specificity)
    counts = ((True, True, hits), (False, True, wrong - hits), (False, False, cleared), (True, False, right - cleared))
    return reviewer_error([DecidedCheck(first_overturns=a, truth_overturns=b, n=int(n)) for a, b, n in counts])


def reviewed(n, rng, *, spot_check, sensitivity=SENSITIVITY, specificity=SPECIFICITY, source="review"):
    """Return the ledger of traffic whose reviewers err, and the true share of wrong answers."""
    made = simulated(n, rng, threshold=THRESHOLD, spot_check=spot_check)
    ledger = in_brief(made.ledger)
    true = np.nan_to_num(ledger.quality)
    keeps = rng.random(n) < np.where(true == 1, specificity, sensitivity)
    said = np.where(np.isnan(ledger.quality), np.nan, np.where(keeps, true, 1 - true))
    known = ~np.isnan(said)
    sources = CodedColumn(names=(source,), codes=np.where(known, 0, -1).astype(np.int32))
    return replace(ledger, quality=said, sources=sources), float(1 - made.right[ledger.answered].mean())


def document_of(ledger, target, error, replicates=0):
    settings = AuditSettings(settings=Settings(replicates=replicates), max_risk=target, reviewers=error)
    return audit(ledger, settings).document


def test_what_reviewers_say_stands_beside_the_corrected_verdict():
    rng = np.random.default_rng(0)
    ledger, true = reviewed(40_000, rng, spot_check=0.1)
    error = looks(rng, wrong=400, right=2_000)
    document = document_of(ledger, 0.2, error)
    (one,) = document["headline"]["judgements"]
    corrected = one["corrected"]
    assert corrected["lower"] < true < corrected["upper"]
    assert corrected["value"] < one["estimate"]["value"]  # most are right, and some of these are called wrong
    assert one["verdict"] == corrected["verdict"] == one["observed"]["verdict"] == "kept"
    assert one["why"].startswith("corrected for the errors of reviewers between")
    assert "What reviewers say, not corrected, would be: kept" in one["why"]
    assert document["labels"]["reviewers"]["n_sensitivity"] == 400
    shown = page(document)
    assert "The verdict is the one corrected for the errors of reviewers" in shown
    assert "by blind second looks at 400 wrong and 2,000 right answers" in shown


@pytest.mark.parametrize(
    ("error", "source", "said"),
    [
        (
            looks(np.random.default_rng(0), wrong=12),
            "review",
            "decided at 12 wrong and 200 right answers, and 20 of each",
        ),
        (None, "review", "of blind second looks nothing is known here"),
        (looks(np.random.default_rng(0)), "lab", ""),
    ],
)
def test_where_too_little_is_known_nothing_is_corrected_and_one_line_says_so(error, source, said):
    ledger, _ = reviewed(4_000, np.random.default_rng(1), spot_check=0.2, source=source)
    document = document_of(ledger, 0.1, error)
    (one,) = document["headline"]["judgements"]
    assert one["corrected"] is one["observed"] is None
    assert "corrected for" not in one["why"]
    assert said in document["labels"]["reviewers"]["says"]
    assert bool(said) == bool(document["labels"]["reviewers"]["says"])
    if said:
        assert page(document).count(said) == 1


@pytest.mark.parametrize(
    ("sensitivity", "specificity", "target", "observed", "decides"),
    [
        (0.95, 0.9, 1.25, "broken", "kept"),  # they accuse right answers
        (0.5, 1.0, 0.75, "kept", "broken"),  # they miss half of the wrong ones
    ],
)
def test_the_corrected_verdict_decides_the_headline(sensitivity, specificity, target, observed, decides):
    rng = np.random.default_rng(2)
    ledger, true = reviewed(60_000, rng, spot_check=0.2, sensitivity=sensitivity, specificity=specificity)
    error = looks(rng, wrong=4_000, right=20_000, sensitivity=sensitivity, specificity=specificity)
    headline = document_of(ledger, target * true, error)["headline"]
    (one,) = headline["judgements"]
    assert headline["verdict"] == one["verdict"] == decides
    assert one["observed"]["verdict"] == observed
    assert f"What reviewers say, not corrected, would be: {observed}" in one["why"]
    without = document_of(ledger, target * true, None)["headline"]
    assert without["verdict"] == observed


def test_reviewers_who_tell_no_more_than_chance_decide_nothing():
    rng = np.random.default_rng(3)
    ledger, true = reviewed(20_000, rng, spot_check=0.2)
    error = looks(rng, wrong=100, right=100, sensitivity=0.3, specificity=0.5)
    document = document_of(ledger, 3 * true, error)
    (one,) = document["headline"]["judgements"]
    assert one["observed"]["verdict"] == "kept"
    assert document["headline"]["verdict"] == "not enough evidence"
    assert one["why"].startswith("what reviewers say of wrong answers tells no more than chance")
    assert "tells no more than chance" in page(document)


def test_few_labels_break_a_promise_only_if_the_exact_intervals_do():
    rng = np.random.default_rng(4)
    ledger, _ = reviewed(400, rng, spot_check=0.08)
    (one,) = document_of(ledger, 0.001, looks(rng, wrong=400, right=2_000))["headline"]["judgements"]
    assert one["estimate"]["labelled"] < 30
    assert (one["observed"]["verdict"], one["verdict"]) == ("broken", "not enough evidence")


def test_outcomes_of_others_are_not_corrected_with_them():
    found = correction_of(looks(np.random.default_rng(0)), {"review": 90, "lab": 10})
    assert found.error is None
    assert found.words.endswith("10 of 100 outcomes come from others")


@pytest.mark.parametrize("source", ["review", "lab"])
@pytest.mark.parametrize("share", ["of the sets lack the right label", ANSWERS_LACK])
def test_a_promise_about_sets_or_parts_of_answers_is_not_corrected_and_says_so(share, source):
    ledger, _ = reviewed(4_000, np.random.default_rng(1), spot_check=0.2, source=source)
    promise = {"share": share, "target": 0.1, "delta": None, "n": 100, "statement": "s"}
    asked = AuditSettings(
        settings=Settings(replicates=0),
        promises={name: [promise] for name in ledger.artifacts.names},
        reviewers=looks(np.random.default_rng(0)),
    )
    for one in audit(ledger, asked).document["headline"]["judgements"]:
        assert one["corrected"] is None
        assert ("reviewers err as well, and that is not in this number" in one["why"]) == (source == "review")


@pytest.mark.long
def test_at_the_target_reviewers_who_err_break_the_promise_and_the_correction_does_not():
    """Risk at the target, 1,000 labels, sensitivity 0.9, specificity 0.97, 40 and 200 second looks (METHODS 10.15)."""
    rng, runs = np.random.default_rng(5), 150
    words = {"plain": 0, "corrected": 0, "covered": 0}
    target = float(np.mean([reviewed(100_000, np.random.default_rng(seed), spot_check=0.02)[1] for seed in range(3)]))
    for _ in range(runs):
        ledger, _ = reviewed(20_000, rng, spot_check=0.06)
        (one,) = document_of(ledger, target, looks(rng))["headline"]["judgements"]
        words["plain"] += one["observed"]["verdict"] == "broken"
        assert one["verdict"] == one["corrected"]["verdict"]
        words["corrected"] += one["corrected"]["verdict"] == "broken"
        words["covered"] += one["corrected"]["lower"] <= target <= one["corrected"]["upper"]
    assert words["plain"] > 0.1 * runs
    assert words["corrected"] <= binom.ppf(0.999, runs, 0.025)
    assert words["covered"] >= binom.ppf(0.001, runs, 0.95)
