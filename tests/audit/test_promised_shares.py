"""A replay measures what a promise is about: sets or predicted labels, of all labels or as a mean over rows."""

from math import isnan

import numpy as np
import pytest

from demur.audit.promised_shares import SETS_LACK, MissedSums, promised_shares
from demur.policies.promise import (
    LABELS_MISSING,
    LABELS_NOT_PREDICTED,
    ROWS_LABELS_MISSING,
    ROWS_LABELS_NOT_PREDICTED,
)

TRUTH = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]], dtype=bool)
SETS = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=bool)
SAID = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]], dtype=bool)


def promise(share):
    return {"share": share, "target": 0.1, "statement": "s"}


@pytest.mark.parametrize(
    ("share", "value", "n"),
    [
        (LABELS_MISSING, 2 / 6, 6),
        (ROWS_LABELS_MISSING, (1 / 4 + 0 + 0 + 1) / 4, 4),
        ("of the labels that hold are missing from the set", (1 / 4 + 0 + 0 + 1) / 4, 4),  # as it was said before
        (SETS_LACK, (1 / 4 + 0 + 0 + 1) / 4, 4),
        (LABELS_NOT_PREDICTED, 3 / 6, 6),
        (ROWS_LABELS_NOT_PREDICTED, (3 / 4) / 4, 4),
    ],
)
def test_each_share_by_hand(share, value, n):
    sums = [MissedSums().added(shown[:1], TRUTH[:1]).added(shown[1:], TRUTH[1:]) for shown in (SETS, SAID)]
    (found,) = promised_shares([promise(share)], *sums)
    assert found.value == pytest.approx(value)
    assert (found.n, found.target) == (n, 0.1)
    assert found.statement.startswith("10% of ")


def test_promises_about_answers_are_left_out_and_nothing_known_is_no_number():
    assert promised_shares([promise("of the answers are wrong")], MissedSums(), MissedSums()) == []
    (found,) = promised_shares([promise(LABELS_MISSING)], MissedSums(), MissedSums())
    assert isnan(found.value)
    assert found.n == 0
