"""Audits of simulated services whose truth is known: they are centred on it, and their intervals cover it.

The service is that of METHODS 9.9, over-confident, and answers 85%. All held records are labelled, and 2% of the
answered ones. Monte Carlo errors are bounded by four standard errors, shares by the binomial's.
"""

import numpy as np
import pytest
from scipy.stats import binom

from tests.audit.report.simulated import simulated
from tests.audit.report.simulated_audits import (
    DELTA,
    FULL,
    REPLICATES,
    RUNS,
    THRESHOLD,
    Found,
    N,
    audited,
    document_of,
    in_brief,
    numbers_of,
    true_selective_risk,
)

NOISY = ("ece", "ace")
"""Sums of absolute gaps: whatever noise the labels have, it raises them."""


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    return audited(lambda rng: simulated(N, rng, threshold=THRESHOLD), runs=RUNS, replicates=REPLICATES)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in FULL if name not in NOISY])
def test_numbers_are_centred_on_what_all_labels_would_say(found: dict[str, Found], name: str) -> None:
    assert abs(found[name].bias) <= 4 * found[name].standard_error


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", NOISY)
def test_noise_of_labels_raises_calibration_errors_by_less_than_their_spread(
    found: dict[str, Found], name: str
) -> None:
    assert 0 < found[name].bias < found[name].value.std()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in FULL if name not in NOISY])
def test_intervals_cover_at_the_stated_rate(found: dict[str, Found], name: str) -> None:
    truth = true_selective_risk() if name == "selective_risk" else float(found[name].full.mean())
    least = int(binom.ppf(0.001, RUNS, 1 - DELTA))  # 180 of 200

    assert found[name].covered(truth) >= least
    assert np.mean(found[name].upper - found[name].lower) < 6 * found[name].value.std()  # and are no wider than that


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", NOISY)
def test_intervals_of_calibration_errors_reach_down_to_the_truth(found: dict[str, Found], name: str) -> None:
    truth = float(found[name].full.mean())

    assert found[name].covered(truth) >= binom.ppf(0.001, RUNS, 1 - DELTA)
    assert (found[name].lower > 0).any()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", ["risk", "brier", "nll", "citl", "auroc", "prr", "rc_auc", "macro_f1"])
def test_what_labelled_rows_say_as_they_stand_is_far_off(found: dict[str, Found], name: str) -> None:
    one = found[name]
    truth = float(one.full.mean())

    assert (np.abs(one.naive - one.full) > np.abs(one.value - one.full)).mean() > 0.9
    assert ((one.naive < one.lower) | (one.naive > one.upper)).mean() > 0.5
    assert abs(one.naive.mean() - truth) > 2 * one.value.std()


@pytest.mark.slow
@pytest.mark.long
def test_means_are_those_of_the_catalogue() -> None:
    """METHODS 9.9: 20,000 records of one population, answered from a confidence of 0.9. There the naive ECE is too
    high by a third; at 85% answered it is right by accident."""
    catalogue = {
        "risk": (0.174, 0.365),
        "selective_risk": (0.061, 0.061),
        "ece": (0.041, 0.054),
        "ace": (0.043, 0.052),
        "brier": (0.110, 0.200),
        "nll": (0.364, 0.589),
        "citl": (0.031, 0.028),
        "c_slope": (0.905, 0.804),
        "auroc": (0.832, 0.724),
        "prr": (0.757, 0.512),
        "rc_auc": (0.055, 0.218),
    }

    again = audited(lambda rng: simulated(20_000, rng), runs=30, replicates=0)

    for name, (weighted, naive) in catalogue.items():
        one = again[name]
        error = one.value.std(ddof=1) / np.sqrt(len(one.value)) + one.full.std(ddof=1)  # theirs is one population
        assert one.value.mean() == pytest.approx(weighted, abs=3 * error + 0.001), name
        assert one.naive.mean() == pytest.approx(naive, abs=3 * one.naive.std(ddof=1) + 0.001), name


@pytest.mark.slow
@pytest.mark.long
def test_complaints_from_outside_leave_the_corrected_risk_of_answers_alone() -> None:
    """One wrong answer in ten is complained of: counted as they come, the answers look far worse than they are."""
    complained = audited(lambda rng: simulated(N, rng, threshold=THRESHOLD, complaints=0.1), runs=30, replicates=0)[
        "selective_risk"
    ]

    assert abs(complained.bias) <= 4 * complained.standard_error
    assert (complained.lower <= true_selective_risk()).mean() > 0.85
    assert complained.naive.min() > 3 * true_selective_risk()


def test_a_kind_of_which_nothing_is_reviewed_refuses_every_number_it_is_part_of() -> None:
    service = simulated(
        4_000, np.random.default_rng(1), threshold=THRESHOLD, spot_check=0.1, reviewed_share=(0.0, 1.0, 1.0)
    )

    document = document_of(in_brief(service.ledger), max_risk=0.5, replicates=0)

    numbers = numbers_of(document)
    assert document["labels"]["refused"] == ["checked", "held"]
    assert all(np.isnan(numbers[name][:3]).all() for name in FULL)
    assert document["headline"]["verdict"] == "not enough evidence"
    groups = next(one["cells"] for one in document["breakdowns"] if one["by"] == "group")
    assert {cell["name"]: cell["risk"]["evidence"] for cell in groups} == {
        "x": "refused",
        "y": "sufficient",
        "z": "exact_only",
    }
