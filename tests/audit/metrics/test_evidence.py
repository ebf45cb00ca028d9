import math

import pytest

from demur.audit.metrics.evidence import EvidenceStatus, evidence
from demur.uncertainty.checks import InvalidInput


@pytest.mark.parametrize(
    ("events", "others", "unlabelled", "status"),
    [
        (0, 0, 3, EvidenceStatus.NONE),
        (10, 19, 0, EvidenceStatus.INSUFFICIENT),
        (10, 20, 0, EvidenceStatus.SUFFICIENT),
        (5, 25, 9, EvidenceStatus.SUFFICIENT),
        (4, 26, 0, EvidenceStatus.EXACT_ONLY),
        (26, 4, 0, EvidenceStatus.EXACT_ONLY),
        (0, 30, 0, EvidenceStatus.EXACT_ONLY),
    ],
)
def test_status(events, others, unlabelled, status):
    outcome = [1] * events + [0] * others + [None] * unlabelled
    found = evidence(outcome, [2.5] * (events + others) + [0] * unlabelled)
    assert found.status is status
    assert (found.n_labelled, found.n_events, found.n_nonevents) == (events + others, events, others)
    assert math.isnan(found.n_effective) == (found.n_labelled == 0)


def test_labels_of_unequal_weight_count_as_fewer():
    outcome = [1, 0] * 20
    assert evidence(outcome, [1] * 40).status == "sufficient"
    assert evidence(outcome, [1] * 39 + [100]).status == "insufficient"
    assert evidence(outcome, [1] * 39 + [100], min_effective=1).status == "sufficient"


def test_equal_weights_reach_the_number_that_is_asked_for():
    for n in range(30, 80):
        assert evidence([1, 0] * n, [0.1] * 2 * n, min_effective=2 * n).status == "sufficient"


@pytest.mark.parametrize(
    ("outcome", "weights", "options"),
    [
        ([0.5], [1], {}),
        ([None], [1], {}),
        ([1], [1], {"min_labelled": 1.5}),
        ([1], [1], {"min_effective": -1}),
        ([1], [1], {"min_events": None}),
        ([], [], {}),
    ],
)
def test_what_is_refused(outcome, weights, options):
    with pytest.raises(InvalidInput):
        evidence(outcome, weights, **options)
