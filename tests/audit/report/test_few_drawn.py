"""Ranking and calibration have no interval where few spot checks found an error, however many held ones did."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from demur.audit.ledger.ledger import Ledger
from demur.audit.metrics.evidence import ranking_evidence
from demur.audit.report.page import page
from tests.audit.report.simulated import simulated
from tests.audit.report.simulated_audits import DELTA, FULL, document_of, in_brief, numbers_of
from tests.audit.report.test_estimates import rows

RANKING = ("auroc", "prr", "rc_auc", "brier", "nll")


def with_checks(n_wrong: int, n_right: int) -> Ledger:
    """Return traffic of which so many answered records are labelled, wrong and right, and all held ones."""
    ledger = in_brief(simulated(4_000, np.random.default_rng(8), spot_check=0.2).ledger)
    wrong = ledger.quality == 0
    checked = ledger.reviewed & ledger.answered
    kept = np.zeros(len(ledger), dtype=bool)
    kept[np.flatnonzero(checked & wrong)[:n_wrong]] = True
    kept[np.flatnonzero(checked & ~wrong)[:n_right]] = True
    return rows(ledger, np.flatnonzero(~ledger.answered | kept | ~ledger.drawn))


def noted(ledger: Ledger) -> dict[str, Any]:
    document = document_of(ledger, replicates=99)
    return {one["name"]: one for one in document["estimates"] if one["of"] in ("", "confidence")}


@pytest.mark.parametrize(
    ("n_wrong", "n_right", "says"),
    [
        (5, 60, ""),
        (4, 60, "4 of 64 spot checks found one wrong, and 5 such are needed; at this rate that takes about 16 further"),
        (0, 40, "none of 40 spot checks found one wrong, and 5 such are needed; that takes more than 160 further"),
        (9, 2, "2 of 11 spot checks found one right"),
        (0, 0, "no spot check has a label; at least 10 are needed"),
    ],
)
def test_what_is_needed_for_an_interval_is_said(n_wrong: int, n_right: int, says: str) -> None:
    ledger = with_checks(n_wrong, n_right)
    found = noted(ledger)
    labelled = np.where(ledger.reviewed, 1.0, 0.0)
    outcome = [None if np.isnan(q) else 1 - q for q in ledger.quality.tolist()]
    assert ranking_evidence(outcome, labelled, ledger.label_probability).show == (not says)
    for name in ("auroc", "prr", "brier", "nll", "ece", "citl", "macro_f1"):
        assert (found[name]["lower"] is None) == bool(says), name
        assert says in found[name]["note"]
    if n_wrong + n_right:
        assert found["auroc"]["value"] is not None  # the number stays, alone


@pytest.mark.slow
def test_the_page_says_it_once_for_all_scores() -> None:
    text = page(document_of(with_checks(4, 60), replicates=99))
    assert "No interval: 4 of 64 spot checks found one wrong" in text
    assert text.count("4 of 64 spot checks") < 20


@pytest.mark.slow
def test_where_every_prediction_is_labelled_all_errors_count() -> None:
    ledger = in_brief(simulated(400, np.random.default_rng(1), all_known=True).ledger)
    found = noted(ledger)
    assert found["auroc"]["note"] == ""
    assert found["auroc"]["lower"] is not None


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("labels", [60, 100])
def test_intervals_that_are_shown_cover_at_the_stated_rate(labels: int) -> None:
    """With two errors among 20 checked answers, intervals of AUROC and PRR covered 80% and 62% of the time."""
    truth = {name: FULL[name](simulated(400_000, np.random.default_rng(99))) for name in RANKING}
    rng, runs = np.random.default_rng(labels), 200
    covered: dict[str, list[bool]] = {name: [] for name in RANKING}
    for seed in range(runs):
        service = simulated(int(labels / 0.02 / 0.64), rng, spot_check=0.02)
        found = numbers_of(document_of(in_brief(service.ledger), seed=seed))
        for name in RANKING:
            _, lower, upper, _ = found[name]
            if not np.isnan(lower):
                covered[name].append(lower <= truth[name] <= upper)
    for name, hits in covered.items():
        assert len(hits) >= 30
        assert sum(hits) >= binom.ppf(0.0001, len(hits), 1 - DELTA), name
