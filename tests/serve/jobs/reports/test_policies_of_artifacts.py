"""A report learns from each artifact which policy decided, and says first what that policy promises."""

from datetime import UTC, datetime

import numpy as np

from demur.audit.report.audit import audit
from demur.audit.report.subjects import PolicyWords
from demur.serve.jobs.reports import making
from demur.serve.jobs.reports.making import ReportRequest, asked_of, summary_of
from tests.audit.report.simulated import simulated
from tests.conftest import ROOT
from tests.serve.web.audit.traffic import config_of

STORED = ROOT / "tests/serve/version_0_1_0/backup/artifacts"
ARTIFACT = "digits-51a92e46df7ae032"  # target_risk with prediction sets


def asked(model="digits"):
    wish = ReportRequest(model=model, since=None, until=datetime.now(UTC), as_of=datetime.now(UTC))
    config = config_of("digits", "letters", artifacts=str(STORED))
    return asked_of(config, wish, artifacts=[ARTIFACT], last=ARTIFACT, command="")


def test_the_policy_of_an_artifact_is_known():
    assert asked().policies == {
        ARTIFACT: PolicyWords(
            kind="target_risk",
            about="answers",
            does="kept wrong answers within 0.2% on the rows of the fit, and says nothing of others",
            aim=0.002,
        )
    }


def test_of_a_later_model_in_a_cascade_the_settings_are_its_own():
    manifest = {
        "name": "first",
        "configured": {"policy": {"kind": "threshold"}},
        "configured_further": {"second": {"policy": {"kind": "cost"}}},
    }
    assert making._configured(manifest, "first") == {"policy": {"kind": "threshold"}}
    assert making._configured(manifest, "second") == {"policy": {"kind": "cost"}}
    assert making._configured(manifest, "third") == {}


def test_the_summary_says_first_that_nothing_is_promised_of_answers():
    found = audit(simulated(600, np.random.default_rng(0)).ledger, asked())
    summary = summary_of(found.document)
    assert summary.why.startswith("No promise about wrong answers: the policy target_risk makes none: it kept wrong")


def test_the_summary_says_both_where_another_promise_was_broken():
    document = {
        "subjects": [
            {"about": "answers", "verdict": "not enough evidence", "words": "Not enough evidence about x", "says": ""},
            {"about": "sets", "verdict": "broken", "words": "The promise about prediction sets was broken", "says": ""},
        ],
        "verdict": "broken",
        "judgements": [
            {"verdict": "not enough evidence", "part": "", "statement": "few x", "why": "between"},
            {"verdict": "broken", "part": "", "statement": "few y", "why": "above"},
        ],
    }
    assert making._why(document) == "Not enough evidence about x; promised: few y; found: above"
