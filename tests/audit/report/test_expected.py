"""The estimate without labels in an audit: beside the findings, and no part of the verdict."""

from dataclasses import replace

import numpy as np
import pytest

from demur.audit.ledger.ledger import ANSWER
from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.page import page
from demur.audit.report.plan import Settings
from tests.audit.report.simulated import simulated

ASKED = AuditSettings(settings=Settings(replicates=199), max_risk=0.05)


def test_what_confidence_expects_stands_in_the_document_and_on_the_page() -> None:
    ledger = simulated(3_000, np.random.default_rng(0)).ledger
    ledger = replace(ledger, confidence=np.where(np.arange(3_000) % 50 == 0, np.nan, ledger.confidence))
    document = audit(ledger, ASKED).document
    answered = ledger.actions.codes == ANSWER
    c = ledger.confidence[answered & ~np.isnan(ledger.confidence)]
    found = document["expected_without_labels"]
    assert found["estimate"] == pytest.approx((1 - c).mean(), rel=1e-4)
    assert found["standard_error"] == pytest.approx(np.sqrt((c * (1 - c)).sum()) / len(c), rel=1e-4)
    assert (found["n"], found["n"] + found["n_unknown"]) == (len(c), answered.sum())
    shown = page(document)
    assert "<b>Without labels</b>" in shown
    assert "no verdict goes by it" in shown
    assert "<b>Without labels</b>" not in page({k: v for k, v in document.items() if k != "expected_without_labels"})


def test_no_verdict_goes_by_it() -> None:
    """The confidence is blown up to certainty: the estimate is 0, and the verdict hangs on labels alone."""
    ledger = simulated(3_000, np.random.default_rng(0)).ledger
    sure = replace(ledger, confidence=np.ones(3_000))
    one, other = (audit(each, ASKED).document for each in (ledger, sure))
    assert other["expected_without_labels"]["estimate"] == 0
    assert one["headline"]["verdict"] == other["headline"]["verdict"]
    held = replace(ledger, actions=replace(ledger.actions, codes=np.full_like(ledger.actions.codes, ANSWER + 1)))
    assert audit(held, ASKED).document["expected_without_labels"]["estimate"] is None
