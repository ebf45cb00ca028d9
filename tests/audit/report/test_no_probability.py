"""Audits of models that say nothing of how sure they are."""

from dataclasses import replace

import numpy as np

from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.plan import Settings
from tests.audit.report.simulated import simulated


def test_a_model_without_probabilities_of_its_own_has_a_report_without_what_hangs_on_them() -> None:
    ledger = simulated(300, np.random.default_rng(1), spot_check=0.5).ledger
    mute = replace(ledger, top_probability=np.full(300, np.nan), true_probability=np.full(300, np.nan))

    numbers = {
        one["name"]: one["value"]
        for one in audit(mute, AuditSettings(settings=Settings(replicates=99))).document["estimates"]
    }

    assert numbers["ace_before"] is None
    assert numbers["ace"] is not None
    assert numbers["risk"] is not None


def test_a_stream_without_any_confidence_still_has_its_risk() -> None:
    ledger = simulated(300, np.random.default_rng(1), spot_check=0.5).ledger
    nothing = np.full(300, np.nan)
    mute = replace(ledger, confidence=nothing, top_probability=nothing, scores={})

    document = audit(mute, AuditSettings(settings=Settings(replicates=99))).document

    assert document["records"]["undefined"] == 300
    assert next(one["value"] for one in document["estimates"] if one["name"] == "selective_risk") is not None
    assert all(one["value"] is None for one in document["estimates"] if one["name"] in ("ece", "ace", "brier", "prr"))
