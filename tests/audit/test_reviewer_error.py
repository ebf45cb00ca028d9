from dataclasses import replace

import numpy as np
import pytest

from demur.audit.metrics.resampling import Interval
from demur.audit.reviewer_error import corrected_interval, reviewer_error
from demur.review.disagreement import DecidedCheck


def looks(*, hits=36, missed=4, cleared=194, accused=6):
    """Second looks: wrong answers that were called wrong and right, right ones that were called right and wrong."""
    counts = ((True, True, hits), (False, True, missed), (False, False, cleared), (True, False, accused))
    return [DecidedCheck(first_overturns=said, truth_overturns=true, n=n) for said, true, n in counts if n]


def test_looks_at_held_cases_say_nothing_of_answers():
    held = [replace(check, spot_check=False) for check in looks(hits=20, missed=20, cleared=100, accused=100)]
    own = reviewer_error([*looks(), *held])
    assert own.rates == reviewer_error(looks()).rates
    few = reviewer_error([*looks(hits=10, missed=0), *held])
    assert not few.known
    assert few.rates.n_sensitivity == pytest.approx(10)


def test_rates_count_each_look_once():
    rates = reviewer_error(looks()).rates
    assert (rates.sensitivity, rates.n_sensitivity) == (pytest.approx(0.9), pytest.approx(40))
    assert (rates.specificity, rates.n_specificity) == (pytest.approx(0.97), pytest.approx(200))


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ([], "were decided at 0 wrong and 0 right answers, and 20 of each are needed"),
        (looks(hits=15, missed=4), "were decided at 19 wrong and 200 right answers, and 20 of each are needed"),
        (looks(hits=40, missed=0, cleared=19, accused=0), "at 40 wrong and 19 right answers"),
        (looks(hits=10, missed=30, cleared=10, accused=30), "tells no more than chance"),
    ],
)
def test_too_few_looks_are_said_in_one_line_and_correct_nothing(checks, said):
    error = reviewer_error(checks)
    assert not error.enough
    assert error.words.startswith("what reviewers say ")
    assert error.known or error.words.startswith("what reviewers say is not corrected for their errors")
    assert said in error.words
    assert corrected_interval(Interval(lower=0.01, upper=0.1), error, 0.05) is None


def test_the_words_of_known_rates():
    assert reviewer_error(looks()).words == (
        "reviewers call 90.0% of the wrong answers wrong and 97.0% of the right ones right, by blind second looks at 40"
        " wrong and 200 right answers"
    )


def test_the_interval_allows_for_what_is_not_known_of_the_reviewers():
    error, seen = reviewer_error(looks()), Interval(lower=0.05, upper=0.08)
    found = corrected_interval(seen, error, 0.05)
    middle = (0.065 + 0.97 - 1) / (0.9 + 0.97 - 1)
    assert found.lower < middle < found.upper
    assert found.upper - found.lower > seen.upper - seen.lower
    many = corrected_interval(seen, reviewer_error(looks(hits=3600, missed=400, cleared=19400, accused=600)), 0.05)
    assert found.lower <= many.lower < many.upper <= found.upper
    perfect = corrected_interval(seen, reviewer_error(looks(hits=10**6, missed=0, cleared=10**6, accused=0)), 0.05)
    assert perfect.lower == pytest.approx(0.05, abs=1e-4)
    assert perfect.upper == pytest.approx(0.08, abs=1e-4)


@pytest.mark.slow
def test_the_interval_misses_the_truth_no_more_often_than_it_says():
    rng, missed, runs = np.random.default_rng(0), 0, 400
    for _ in range(runs):
        risk, sensitivity, specificity = rng.uniform(0.01, 0.2), rng.uniform(0.7, 1), rng.uniform(0.9, 1)
        hits, cleared = rng.binomial(60, sensitivity), rng.binomial(300, specificity)
        error = reviewer_error(looks(hits=hits, missed=60 - hits, cleared=cleared, accused=300 - cleared))
        share = risk * sensitivity + (1 - risk) * (1 - specificity)
        found = corrected_interval(Interval(lower=share, upper=share), error, 0.05)
        missed += not found.lower <= risk <= found.upper
    assert missed <= 0.05 * runs
