import math

import pytest

from demur.audit.metrics.agreement import cohen_kappa, krippendorff_alpha
from demur.audit.metrics.intervals import wilson
from demur.audit.opinions import (
    agreement_of,
    agreement_of_checks,
    label_disagreements,
    overturn_rate,
    overturn_rates,
    reviewers_checked,
)
from demur.review.disagreement import LabelPair, OverturnCount, SecondLooks


def said(*labels, n=1, saw=True):
    return LabelPair(labels=labels, saw_prediction=saw, n=n)


def check(first, second, n=1, first_overturns=False, truth_overturns=None):
    return SecondLooks(
        first=first,
        second=second,
        saw_prediction=True,
        first_overturns=first_overturns,
        truth_overturns=truth_overturns,
        n=n,
    )


def overturned(n, otherwise, lower=0.6, confidence=0.64, saw=True):
    return OverturnCount(
        lower=lower,
        upper=None if lower is None else lower + 0.1,
        saw_prediction=saw,
        n=n,
        overturned=otherwise,
        confidence=confidence,
    )


def test_agreement_of_several_opinions():
    found = agreement_of([said("7", "7", n=3), said("1", "7", n=2), said("1", "1", "1")])
    assert (found.n, found.same, found.share) == (6, 4, 4 / 6)
    assert (found.lower, found.upper) == (wilson(4, 6).lower, wilson(4, 6).upper)
    ratings = [["7", "7", None]] * 3 + [["1", "7", None]] * 2 + [["1", "1", "1"]]
    assert found.beyond_chance == krippendorff_alpha(ratings)


def test_sets_of_labels_agree_as_a_whole():
    found = agreement_of([said(["a", "b"], ["a", "b"]), said(["a"], ["a", "b"]), said([], [])])
    assert (found.n, found.same) == (3, 2)


def test_agreement_of_two_looks():
    found = agreement_of_checks([check("7", "7", n=2), check("7", "1"), check("1", "1")])
    assert (found.n, found.same) == (4, 3)
    assert found.beyond_chance == cohen_kappa(["7", "7", "7", "1"], ["7", "7", "1", "1"])


@pytest.mark.parametrize("agreement", [agreement_of([]), agreement_of_checks([])])
def test_agreement_of_nothing(agreement):
    assert (agreement.n, agreement.same) == (0, 0)
    assert all(map(math.isnan, (agreement.share, agreement.lower, agreement.upper, agreement.beyond_chance)))


def test_labels_on_which_people_differ():
    rows = label_disagreements([said("7", "7", n=3), said("1", "7", n=2), said("1", "7", "7")])
    # pairs that name 7: 3 + 2 + 3, apart 2 + 2; that name 1: 2 + 2, all apart
    assert [(row.label, row.pairs, row.apart, row.mixed_with) for row in rows] == [("1", 4, 4, "7"), ("7", 8, 4, "1")]
    assert rows[1].share == 0.5


def test_labels_of_sets_on_which_people_differ():
    rows = label_disagreements([said(["a", "b"], ["a"]), said(["a"], [])])
    assert [(row.label, row.pairs, row.apart, row.mixed_with) for row in rows] == [("b", 1, 1, None), ("a", 2, 1, None)]
    assert label_disagreements([]) == []


def test_what_is_mixed_up_most_is_named():
    (first, *_) = label_disagreements(
        [said("3", "5", n=2), said("3", "8", n=3), said("5", "5", n=9), said("8", "8", n=9)]
    )
    assert (first.label, first.mixed_with) == ("3", "8")


def test_overturns_by_confidence():
    rows = [
        overturned(3, 1, saw=False, confidence=0.68),
        overturned(1, 1),
        overturned(5, 0, lower=0.9, confidence=0.95),
        overturned(2, 2, lower=None, confidence=math.nan),
    ]
    low, high, unknown = overturn_rates(rows)
    assert (low.from_confidence, low.to_confidence, low.n, low.overturned, low.share) == (0.6, 0.7, 4, 2, 0.5)
    assert low.expected == pytest.approx(1 - (3 * 0.68 + 0.64) / 4)
    assert (low.lower, low.upper) == (wilson(2, 4).lower, wilson(2, 4).upper)
    assert (high.share, high.expected) == (0, pytest.approx(0.05))
    assert (unknown.from_confidence, unknown.share) == (None, 1)
    assert math.isnan(unknown.expected)
    overall = overturn_rate(rows)
    assert (overall.n, overall.overturned) == (11, 4)
    assert overall.expected == pytest.approx(1 - (3 * 0.68 + 0.64 + 5 * 0.95) / 9)  # where it is known
    assert math.isnan(overturn_rate([]).share)


def test_what_checks_say_of_reviewers():
    checks = [
        check("1", "1", n=8, first_overturns=True, truth_overturns=True),
        check("7", "1", n=2, first_overturns=False, truth_overturns=True),
        check("7", "7", n=19, first_overturns=False, truth_overturns=False),
        check("1", "7", n=1, first_overturns=True, truth_overturns=False),
        check("7", "3", n=5),  # not yet decided
    ]
    found = reviewers_checked(checks, overturn_rate([overturned(100, 30)]))
    assert found.n == 30
    assert (found.rates.sensitivity, found.rates.n_sensitivity) == (0.8, pytest.approx(10))
    assert (found.rates.specificity, found.rates.n_specificity) == (0.95, pytest.approx(20))
    assert found.corrected.estimate == pytest.approx((0.3 - 0.05) / 0.75)


def test_without_checks_nothing_is_corrected():
    found = reviewers_checked([check("7", "3", n=5)], overturn_rate([overturned(100, 30)]))
    assert (found.n, found.corrected) == (0, None)
    assert math.isnan(found.rates.sensitivity)
    only_right = [check("7", "7", n=5, truth_overturns=False)]
    assert reviewers_checked(only_right, overturn_rate([overturned(100, 30)])).corrected is None
    both = [*only_right, check("1", "1", first_overturns=True, truth_overturns=True)]
    assert reviewers_checked(both, overturn_rate([])).corrected is None
