"""ECE+ is a number only where the record of every label that holds has its probability."""

from dataclasses import replace

import numpy as np
import pytest

from demur.audit.ledger.ledger import UNLOGGED
from demur.audit.metrics.calibration import ece_plus
from demur.audit.report.page import page
from tests.audit.report.simulated import LABELS, simulated
from tests.audit.report.simulated_audits import document_of, in_brief


def told(ledger):
    document = document_of(ledger, replicates=0)
    return document, next(one for one in document["estimates"] if one["name"] == "ece_plus_before")


def test_it_is_that_of_all_probabilities_where_the_log_has_them():
    made = simulated(400, np.random.default_rng(0), all_known=True)
    ledger = replace(in_brief(made.ledger), drawn=np.ones(400, dtype=bool), label_probability=np.ones(400))
    p, truth = np.zeros((2, 400, len(LABELS)))
    p[np.arange(400), made.true], truth[np.arange(400), made.true] = ledger.true_probability, 1
    _, one = told(replace(ledger, reviewed=np.ones(400, dtype=bool)))
    assert one["value"] == pytest.approx(ece_plus(p, truth).ece_plus)
    assert one["note"] == ""


def test_one_label_that_is_not_on_record_makes_it_unknown_and_the_page_says_why():
    ledger = in_brief(simulated(400, np.random.default_rng(0), all_known=True).ledger)
    at = np.flatnonzero(ledger.reviewed)[0]
    lost = ledger.true_probability.copy()
    lost[at] = UNLOGGED
    document, one = told(replace(ledger, true_probability=lost))
    assert one["value"] is None
    assert one["naive"] is None
    assert "not among them" in one["note"]
    assert "some labels that hold are not among them" in page(document)
    held_back = replace(ledger, true_probability=np.where(np.arange(400) == at, 0.0, ledger.true_probability))
    assert told(held_back)[1]["value"] is not None  # a probability of 0 that is on record is one
