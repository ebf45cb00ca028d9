"""Reviews that are missing: those that hang on the confidence are put right, and the others may take a verdict back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import binom, norm

from demur.audit.ledger.ledger import Ledger
from demur.audit.metrics.confidence_strata import confidence_strata, strata_where_reviews_differ
from demur.audit.metrics.sampling import completion_weights, missing_bounds
from demur.audit.metrics.weighted_rows import weighted_mean
from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.in_parts import audit_in_parts, one_by_one
from demur.audit.report.page import page
from demur.audit.report.plan import Settings
from demur.policies.promise import LABELS_MISSING
from tests.audit.report.simulated import simulated
from tests.audit.report.simulated_audits import (
    DELTA,
    bare,
    document_of,
    in_brief,
    numbers_of,
    true_selective_risk,
)
from tests.audit.report.test_estimates import rows

CUT = 0.5
THRESHOLD = float(expit(1.35 * CUT))


def true_risk() -> float:
    chance = 1 - norm.cdf(CUT, 2.2, 1.6)
    return float(quad(lambda z: (1 - expit(z)) * norm.pdf(z, 2.2, 1.6), CUT, 30)[0] / chance)


def reviewed_by_confidence(
    n: int, rng: np.random.Generator, *, spot_check: float, sure: float = 0.9, unsure: float = 0.4
) -> Ledger:
    """Return traffic of which reviews come more often where the model is sure (METHODS 10.15)."""
    ledger = in_brief(simulated(n, rng, threshold=THRESHOLD, spot_check=spot_check).ledger)
    is_sure = logit(ledger.confidence) / 1.35 > 2.2
    done = ledger.drawn & (rng.random(n) < np.where(is_sure, sure, unsure))
    return without(ledger, ledger.drawn & ~done)


def without(ledger: Ledger, missing: Any) -> Ledger:
    """Take the reviews of some drawn records away."""
    kept = ledger.reviewed & ~missing
    return replace(
        ledger,
        reviewed=kept,
        quality=np.where(kept, ledger.quality, np.nan),
        covered=np.where(kept, ledger.covered, np.nan),
        right_labels=np.where(kept, ledger.right_labels, np.nan),
    )


def strata_of(ledger: Ledger) -> list[str]:
    return [
        f"{'held' if a == 1 else 'checked'} {g}" for a, g in zip(ledger.actions.codes, ledger.groups.codes, strict=True)
    ]


def weighted_risk(ledger: Ledger, strata: Any) -> float:
    found = completion_weights(
        ledger.drawn.astype(float), ledger.reviewed.astype(float), ledger.label_probability, strata
    )
    errors = np.where(ledger.reviewed, 1 - np.nan_to_num(ledger.quality), 0.0)
    return float(weighted_mean(errors, found.weights))


@pytest.mark.slow
@pytest.mark.parametrize(("unsure", "most"), [(0.4, 1.0), (0.9, 0.4)])
def test_weights_are_those_of_the_definition(unsure: float, most: float) -> None:
    ledger = reviewed_by_confidence(4_000, np.random.default_rng(2), spot_check=0.5, unsure=unsure)
    asked = [ledger.drawn.astype(float), ledger.reviewed.astype(float), strata_of(ledger)]
    strata = strata_where_reviews_differ(ledger.confidence, *asked)
    document = document_of(ledger, replicates=0)
    assert numbers_of(document)["risk"][0] == pytest.approx(weighted_risk(ledger, strata))
    told = document["labels"]["strata"]
    assert sum(one["drawn"] for one in told) == ledger.drawn.sum()
    cut = {one["kind"] + one["group"] for one in told if one["above"] is not None or one["upto"] is not None}
    assert 0 < len(cut) <= most * 6  # of six kinds and groups; late at random, few are cut
    assert "confidence above" in page(document)
    full = confidence_strata(ledger.confidence, *asked)
    assert set(strata) - set(strata_of(ledger)) <= set(full.strata)


def test_strata_are_cut_where_reviews_differ() -> None:
    for unsure, cut in ((0.4, True), (0.9, False)):
        ledger = reviewed_by_confidence(4_000, np.random.default_rng(3), spot_check=0.5, unsure=unsure)
        asked = [ledger.drawn.astype(float), ledger.reviewed.astype(float), ["all"] * len(ledger)]
        found = strata_where_reviews_differ(ledger.confidence, *asked)
        assert (len(set(found)) > 1) == cut


def test_parts_of_the_traffic_add_up_to_the_whole() -> None:
    ledger = reviewed_by_confidence(3_000, np.random.default_rng(4), spot_check=0.5)
    ledger = replace(ledger, confidence=np.where(np.arange(3_000) % 50, ledger.confidence, np.nan))
    parts = [rows(ledger, np.arange(3_000) % 3 == at) for at in range(3)]
    asked = AuditSettings(settings=Settings(replicates=0), max_risk=0.2)
    whole = audit(ledger, asked).document
    cut = audit_in_parts(ledger.extent, one_by_one(3, lambda at: parts[at]), lambda _: asked).document
    assert cut["labels"]["strata"] == whole["labels"]["strata"]
    assert cut["labels"]["bounds"] == whole["labels"]["bounds"]
    assert numbers_of(cut)["risk"][0] == pytest.approx(numbers_of(whole)["risk"][0])


def judgement(ledger: Ledger, **asked: Any) -> Mapping[str, Any]:
    document = document_of(ledger, replicates=199, **asked)
    (one,) = document["headline"]["judgements"]
    return dict(one)


def test_a_verdict_that_missing_reviews_could_turn_is_taken_back() -> None:
    ledger = bare(in_brief(simulated(4_000, np.random.default_rng(5), threshold=0.9, spot_check=0.5).ledger))
    assert judgement(ledger, max_risk=0.2)["verdict"] == "kept"
    late = without(ledger, ledger.answered & (np.arange(4_000) % 4 == 0))
    one = judgement(late, max_risk=0.2)
    chosen = late.answered & late.drawn
    bounds = missing_bounds(
        1 - np.nan_to_num(late.quality[chosen], nan=1.0),
        np.ones(chosen.sum()),
        late.reviewed[chosen].astype(float),
        late.label_probability[chosen],
    )
    assert one["verdict"] == "not enough evidence"
    words = f"were all of them misses the share would be {100 * bounds.upper:.1f}%, were none of them"
    assert words in one["why"]
    assert "this decides nothing" in one["why"]
    assert judgement(late, max_risk=0.5)["verdict"] == "kept"  # the worst case is below it
    assert judgement(late, max_risk=0.01)["verdict"] == "broken"  # and the best is above
    few = without(ledger, ledger.answered & (np.arange(4_000) % 40 == 0))
    assert judgement(few, max_risk=0.2)["verdict"] == "kept"  # the worst case of these is below it


@pytest.mark.slow
def test_few_missing_reviews_hide_nothing() -> None:
    """37% of the errors that were drawn are not reviewed, and nothing else is missing: 4% of the reviews.

    Where up to 5% were left out of the worst case, a risk above the target was called kept in 17 of 20 audits.
    """
    rng, words = np.random.default_rng(4), []
    target = 0.97 * true_selective_risk()
    for _ in range(20):
        ledger = bare(in_brief(simulated(6_000, rng, threshold=THRESHOLD, spot_check=0.2).ledger))
        wrong = np.nan_to_num(1 - ledger.quality) == 1
        late = without(ledger, ledger.answered & wrong & (rng.random(6_000) < 0.37))
        words.append(judgement(late, max_risk=target)["verdict"])
    assert words.count("kept") <= 2  # 2.5% of 20 audits, and chance
    assert words.count("broken") <= 2


@pytest.mark.slow
def test_sets_and_labels_have_a_worst_case_of_their_own() -> None:
    rng = np.random.default_rng(6)
    ledger = simulated(6_000, rng, spot_check=0.5).ledger
    right = np.where(rng.random(6_000) < 0.5, 2.0, 0.0)
    lost = rng.binomial(right.astype(int), 0.05)
    covered = np.where(right > 0, 1 - lost / np.maximum(right, 1), 1.0)
    ledger = replace(
        ledger,
        right_labels=np.where(ledger.known, right, np.nan),
        covered=np.where(ledger.known, covered, np.nan),
    )
    promise = {"share": LABELS_MISSING, "target": 0.1, "statement": "s", "n": 5_000, "delta": None}
    asked = AuditSettings(settings=Settings(replicates=199), promises={"m-1": [promise], "m-2": [promise]})
    (one,) = audit(ledger, asked).document["headline"]["judgements"]
    assert one["verdict"] == "kept"
    late = without(ledger, np.arange(6_000) % 5 == 0)
    (one,) = audit(late, asked).document["headline"]["judgements"]
    assert one["verdict"] == "not enough evidence"
    assert "20% of the drawn reviews are missing" in one["why"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("labels", "runs"), [(200, 150), (800, 100)])
def test_reviews_that_hang_on_confidence_do_not_fool_an_audit(labels: int, runs: int) -> None:
    """By action alone the estimate was .080 for a true .109, and a risk above the target was called kept in 53%."""
    truth, rng = true_risk(), np.random.default_rng(labels)
    values, covered, words = [], 0, []
    for seed in range(runs):
        n = int(labels / 0.2 / 0.65 / 0.85)
        ledger = bare_but_confidence(reviewed_by_confidence(n, rng, spot_check=0.2))
        document = document_of(ledger, seed=seed, max_risk=truth * 0.99)
        value, lower, upper, _ = numbers_of(document)["selective_risk"]
        values.append(value)
        covered += lower <= truth <= upper
        words.append(document["headline"]["verdict"])
    assert abs(np.mean(values) - truth) <= 4 * np.std(values) / np.sqrt(runs)
    assert covered >= binom.ppf(0.001, runs, 1 - DELTA)
    assert words.count("kept") <= binom.ppf(0.999, runs, DELTA / 2)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("of_wrong", "of_right", "times_target", "never"),
    [(0.45, 0.9, 1.5, "kept"), (0.9, 0.45, 0.91, "broken")],
    ids=["errors half as often", "errors twice as often"],
)
def test_reviews_that_hang_on_the_outcome_decide_nothing(
    of_wrong: float, of_right: float, times_target: float, never: str
) -> None:
    """No weighting helps here, so the worst case takes the verdict back. Without that, a risk of 1.5 times the target
    was called kept, and one of 0.91 times the target broken in 58%."""
    rng, words = np.random.default_rng(12), []
    for seed in range(40):
        ledger = bare_but_confidence(in_brief(simulated(6_000, rng, threshold=THRESHOLD, spot_check=0.2).ledger))
        chance = np.where(ledger.quality == 1, of_right, of_wrong)
        late = without(ledger, ledger.drawn & (rng.random(len(ledger)) >= chance))
        document = document_of(late, seed=seed, replicates=99, max_risk=true_risk() / times_target)
        words.append(document["headline"]["verdict"])
    assert words.count(never) <= binom.ppf(0.999, len(words), DELTA / 2)


def bare_but_confidence(ledger: Ledger) -> Ledger:
    return replace(bare(ledger), confidence=ledger.confidence)
