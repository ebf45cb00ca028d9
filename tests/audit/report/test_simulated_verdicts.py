"""Verdicts and intervals of audits of simulated services, where rows depend on each other, reviews are missing, or the
risk lies at the very target. The service is that of test_simulation.py."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import binom, norm

from demur.audit.ledger.ledger import NONE
from tests.audit.report.simulated import simulated
from tests.audit.report.simulated_audits import (
    DELTA,
    FULL,
    THRESHOLD,
    N,
    bare,
    document_of,
    in_brief,
    numbers_of,
    true_selective_risk,
)


@pytest.mark.slow
@pytest.mark.long
def test_dependent_errors_need_clusters() -> None:
    """Errors of a patient go together: rows that are resampled one by one promise too much, patients do not."""
    rng = np.random.default_rng(9)
    truth = 1 - float(quad(lambda z: expit(z) * norm.pdf(z, 2.2, 1.6), -20, 30)[0])
    covered, runs = {"rows": 0, "patients": 0}, 120
    for seed in range(runs):
        service = simulated(6_000, rng, threshold=THRESHOLD, spot_check=0.5, per_cluster=20, dependence=0.8)
        own = in_brief(service.ledger)
        alone = replace(own, clusters=replace(own.clusters, names=(), codes=np.full(len(own), NONE, dtype=np.int32)))
        for name, ledger in (("rows", alone), ("patients", own)):
            _, lower, upper, _ = numbers_of(document_of(bare(ledger), seed=seed))["risk"]
            covered[name] += lower <= truth <= upper

    assert covered["patients"] >= binom.ppf(0.001, runs, 1 - DELTA)
    assert covered["rows"] <= 0.85 * runs


@pytest.mark.slow
@pytest.mark.long
def test_reviews_that_are_missing_by_group_are_weighed_by_group() -> None:
    """The surest third is reviewed the least. Within a third it hangs on nothing: completion weights put it right."""
    rng = np.random.default_rng(11)
    biases, pooled, covered, runs = [], [], 0, 100
    for _ in range(runs):
        service = simulated(N, rng, threshold=THRESHOLD, spot_check=0.05, reviewed_share=(0.95, 0.7, 0.3))
        ledger = bare(in_brief(service.ledger))
        ungrouped = replace(
            ledger, groups=replace(ledger.groups, names=(), codes=np.full(len(ledger), NONE, dtype=np.int32))
        )
        value, lower, upper, _ = numbers_of(document_of(ledger))["selective_risk"]
        full = FULL["selective_risk"](service)
        biases.append(value - full)
        pooled.append(numbers_of(document_of(ungrouped, replicates=0))["selective_risk"][0] - full)
        covered += lower <= true_selective_risk() <= upper

    assert abs(np.mean(biases)) <= 4 * np.std(biases, ddof=1) / np.sqrt(runs)
    assert covered >= binom.ppf(0.001, runs, 1 - DELTA)
    assert np.mean(pooled) > 4 * np.std(pooled, ddof=1) / np.sqrt(runs) + 0.01  # unknown groups: far too high


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("spot_check", "n", "runs", "replicates"),
    [(0.1, 1_500, 400, 0), ((0.3, 0.1), 1_000, 200, 99), ((0.3, 0.03), 2_000, 300, 99)],
    ids=["one chance", "more for the less sure", "ten times more for the less sure"],
)
def test_verdicts_at_the_very_target_are_wrong_no_more_often_than_stated(
    spot_check: float | tuple[float, float], n: int, runs: int, replicates: int
) -> None:
    rng = np.random.default_rng(20261121)
    verdicts = []
    for seed in range(runs):
        ledger = bare(in_brief(simulated(n, rng, threshold=THRESHOLD, spot_check=spot_check).ledger))
        asked = document_of(ledger, seed=seed, replicates=replicates, max_risk=true_selective_risk())
        verdicts.append(asked["headline"]["verdict"])
    most = binom.ppf(0.95, runs, DELTA / 2)  # by resampling alone, 14 of the last 300 are "kept"

    assert verdicts.count("kept") <= most
    assert verdicts.count("broken") <= most
    assert verdicts.count("not enough evidence") >= 0.9 * runs


@pytest.mark.slow
@pytest.mark.long
def test_verdicts_about_patients_at_the_very_target_are_wrong_no_more_often_than_stated() -> None:
    rng, runs = np.random.default_rng(5), 250
    verdicts = []
    for seed in range(runs):
        drawn = simulated(1_500, rng, threshold=THRESHOLD, spot_check=0.3, per_cluster=10, dependence=0.5)
        asked = document_of(bare(in_brief(drawn.ledger)), seed=seed, replicates=99, max_risk=true_selective_risk())
        verdicts.append(asked["headline"]["verdict"])
    most = binom.ppf(0.95, runs, DELTA / 2)  # by resampling alone, 16 are "kept"

    assert verdicts.count("kept") <= most
    assert verdicts.count("broken") <= most


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("times", "verdict"), [(3.0, "kept"), (1 / 3, "broken")])
def test_verdicts_far_from_the_target_are_told(times: float, verdict: str) -> None:
    rng = np.random.default_rng(3)
    told = []
    for _ in range(40):
        ledger = bare(in_brief(simulated(2_000, rng, threshold=THRESHOLD, spot_check=0.1).ledger))
        told.append(document_of(ledger, replicates=0, max_risk=times * true_selective_risk())["headline"]["verdict"])

    assert told.count(verdict) >= 36
