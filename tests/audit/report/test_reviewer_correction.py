"""Verdicts without the errors of reviewers, beside those on what they said."""

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


def test_the_corrected_verdict_stands_beside_the_other_one():
    rng = np.random.default_rng(0)
    ledger, true = reviewed(40_000, rng, spot_check=0.1)
    error = looks(rng, wrong=400, right=2_000)
    document = document_of(ledger, 0.2, error)
    (one,) = document["headline"]["judgements"]
    corrected = one["corrected"]
    assert corrected["lower"] < true < corrected["upper"]
    assert corrected["value"] < one["estimate"]["value"]  # most are right, and some of these are called wrong
    assert one["verdict"] == corrected["verdict"] == "kept"
    assert "corrected for the errors of reviewers" in corrected["why"]
    assert document["labels"]["reviewers"]["n_sensitivity"] == 400
    shown = page(document)
    assert "Corrected for the errors of reviewers" in shown
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
    assert document["headline"]["judgements"][0]["corrected"] is None
    assert said in document["labels"]["reviewers"]["says"]
    assert bool(said) == bool(document["labels"]["reviewers"]["says"])
    if said:
        assert page(document).count(said) == 1


def test_outcomes_of_others_are_not_corrected_with_them():
    found = correction_of(looks(np.random.default_rng(0)), {"review": 90, "lab": 10})
    assert found.error is None
    assert found.words.endswith("10 of 100 outcomes come from others")


def test_a_promise_about_sets_is_not_corrected():
    ledger, _ = reviewed(4_000, np.random.default_rng(1), spot_check=0.2)
    promise = {"share": "of the sets lack the right label", "target": 0.1, "delta": None, "n": 100, "statement": "s"}
    asked = AuditSettings(
        settings=Settings(replicates=0),
        promises={name: [promise] for name in ledger.artifacts.names},
        reviewers=looks(np.random.default_rng(0)),
    )
    for one in audit(ledger, asked).document["headline"]["judgements"]:
        assert one["corrected"] is None


@pytest.mark.long
def test_at_the_target_reviewers_who_err_break_the_promise_and_the_correction_does_not():
    """Risk at the target, 1,000 labels, sensitivity 0.9, specificity 0.97, 40 and 200 second looks (METHODS 10.15)."""
    rng, runs = np.random.default_rng(5), 150
    words = {"plain": 0, "corrected": 0, "covered": 0}
    target = float(np.mean([reviewed(100_000, np.random.default_rng(seed), spot_check=0.02)[1] for seed in range(3)]))
    for _ in range(runs):
        ledger, _ = reviewed(20_000, rng, spot_check=0.06)
        (one,) = document_of(ledger, target, looks(rng))["headline"]["judgements"]
        words["plain"] += one["verdict"] == "broken"
        words["corrected"] += one["corrected"]["verdict"] == "broken"
        words["covered"] += one["corrected"]["lower"] <= target <= one["corrected"]["upper"]
    assert words["plain"] > 0.1 * runs
    assert words["corrected"] <= binom.ppf(0.999, runs, 0.025)
    assert words["covered"] >= binom.ppf(0.001, runs, 0.95)
