"""Prediction sets of each part of the traffic: their size, and how many hold the right label."""

from dataclasses import replace

import numpy as np
import pytest

from demur.audit.report.page import page
from tests.audit.report.simulated import simulated
from tests.audit.report.simulated_audits import document_of, in_brief


def by_group(document):
    return {cell["name"]: cell for part in document["breakdowns"] if part["by"] == "group" for cell in part["cells"]}


def test_size_and_coverage_of_a_part_are_those_of_its_rows():
    ledger = in_brief(simulated(900, np.random.default_rng(0), spot_check=1.0).ledger)
    document = document_of(ledger, replicates=99)
    for name, cell in by_group(document).items():
        own = ledger.groups.codes == ledger.groups.names.index(name)
        assert cell["set_size"] == pytest.approx(ledger.set_size[own].mean())
        found = cell["set_coverage"]
        assert found["value"] == pytest.approx(ledger.covered[own].mean())
        assert found["lower"] < found["value"] < found["upper"]
        assert found["labelled"] == own.sum()
        assert found["errors"] == (ledger.covered[own] == 0).sum()
    shown = page(document)
    assert "Prediction sets by group" in shown
    assert "labels in a set" in shown


def test_without_sets_nothing_is_said_of_them_and_few_labels_carry_no_share():
    ledger = in_brief(simulated(400, np.random.default_rng(0), spot_check=0.05).ledger)
    nothing = np.full(400, np.nan)
    bare = document_of(replace(ledger, set_size=nothing, covered=nothing, right_labels=nothing), replicates=0)
    assert not any("set_size" in cell for cell in by_group(bare).values())
    assert "Prediction sets by" not in page(bare)
    few = document_of(replace(ledger, covered=np.where(ledger.answered, ledger.covered, np.nan)), replicates=0)
    for cell in by_group(few).values():
        assert cell["set_size"] > 0
        assert cell["set_coverage"]["value"] is None
