"""What is counted about audits in bad situations."""

import numpy as np
import pytest

from benchmarks import audit_situations
from benchmarks.audit_situations import SITUATIONS, TRUE_RISK, by_outcome, late_if_unsure, plainly


def test_the_plain_count_takes_the_labels_of_the_answers_as_they_are():
    ledger, _ = SITUATIONS["all reviewed"](400, np.random.default_rng(0))
    known = ledger.answered & ledger.reviewed
    said = plainly(ledger)
    assert said.value == pytest.approx(1 - ledger.quality[known].mean())
    assert said.lower < said.value < said.upper
    assert abs(known.sum() - 400) < 80


def test_situations_miss_the_reviews_that_they_say():
    rng = np.random.default_rng(0)
    late, _ = late_if_unsure(4_000, rng)
    drawn, sure = late.drawn & late.answered, late.confidence > 0.95
    assert late.reviewed[drawn & sure].mean() == pytest.approx(0.9, abs=0.03)
    assert late.reviewed[drawn & ~sure].mean() == pytest.approx(0.4, abs=0.06)
    halved, _ = by_outcome(0.45, 0.9)(8_000, rng)
    assert plainly(halved).value < 0.7 * TRUE_RISK


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_each_situation_is_audited(name):
    ledger, looks = SITUATIONS[name](200, np.random.default_rng(1))
    said = audit_situations.corrected(ledger, looks, seed=0, replicates=99)
    assert said.verdict in ("kept", "broken", "not enough evidence")
    assert 0 <= said.value <= 0.5
