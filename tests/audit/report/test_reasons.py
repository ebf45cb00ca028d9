"""Why an audit found what it found, and what it tells people to do."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from demur.audit.report import reason_words
from demur.audit.report.audit import AuditSettings, audit
from demur.audit.report.next_steps import next_steps
from demur.audit.report.page import board_page, page
from demur.audit.report.plan import Settings
from demur.audit.report.subjects import policy_words
from tests.audit.report.simulated import simulated

FAST = Settings(replicates=200)
SETS = {
    "share": "of the sets lack the right label",
    "target": 0.05,
    "delta": None,
    "n": 300,
    "statement": "at most 5% of the sets lack the right label, on average",
}
TARGET_RISK = policy_words({"policy": {"kind": "target_risk", "max_risk": 0.002}})


@cache
def document(max_risk=None, *, bad_group=False, promise=False, policy=False):
    """A report of a week with all outcomes known; with `bad_group`, the answers of group y are wrong half of the
    time."""
    rng = np.random.default_rng(3)
    ledger = simulated(6_000, rng, all_known=True).ledger
    if bad_group:
        worse = (ledger.groups.codes == 1) & (rng.random(len(ledger)) < 0.5)
        true = replace(ledger.true, codes=np.where(worse, (ledger.predicted.codes + 1) % 10, ledger.true.codes))
        ledger = replace(ledger, true=true, quality=np.where(worse, 0.0, ledger.quality))
    asked = AuditSettings(
        settings=replace(FAST, every_outcome_known=True),
        max_risk=max_risk,
        promises={name: [SETS] for name in ("m-1", "m-2")} if promise else {},
        policies=dict.fromkeys(("m-1", "m-2"), TARGET_RISK) if policy else {},
    )
    return json.loads(audit(ledger, asked).as_json())


def test_the_group_with_the_excess_is_named_first():
    why = document(0.1, bad_group=True)["why"]
    worst = why["contributors"][0]
    assert (worst["by"], worst["name"], worst["sure"]) == ("group", "y", True)
    assert worst["lower"] < worst["value"] < worst["upper"]
    assert worst["excess"] == pytest.approx(worst["n"] * (worst["value"] - 0.1))
    assert not [one["name"] for one in why["contributors"] if one["by"] == "group" and one["name"] != "y"]
    words = reason_words.parts_in_words(document(0.1, bad_group=True))[0]
    assert (words.by, words.name) == ("group", "y")
    assert "more than promised" in words.excess


def test_where_all_parts_are_alike_none_is_blamed():
    found = document(0.001)
    assert found["headline"]["verdict"] == "broken"
    assert not [one for one in found["why"]["contributors"] if one["sure"]]
    assert reason_words.heads_of_parts(found).startswith("The excess is spread")


def test_without_a_promise_the_aim_of_the_policy_is_the_level():
    found = document(policy=True)
    assert found["why"]["level"] == {"about": "answers", "kind": "aimed at", "target": 0.002}
    assert found["headline"]["subjects"][0]["words"] == "No promise about wrong answers"
    assert any(step["command"] == "demur audit --model m --max-risk 0.002" for step in found["next_steps"])


def test_without_either_it_is_the_share_of_all():
    found = document()
    risk = next(one for one in found["estimates"] if one["name"] == "selective_risk")
    assert found["why"]["level"] == {"about": "answers", "kind": "average", "target": risk["value"]}


def test_a_gate_that_stands_before_the_rule_is_not_proposed_again():
    found = document(0.1, bad_group=True)
    found["headline"]["policy"] = {"kind": "selective_risk", "gates": ["in_distribution"]}
    step = next_steps(found)[0]["do"]
    assert step.startswith("Hold more inputs like those of y: the gate `in_distribution` lets too many of them pass")


def test_a_broken_promise_says_what_to_type():
    steps = document(0.1, bad_group=True)["next_steps"]
    assert steps[0]["do"].startswith("Hold inputs like those of y")
    assert {
        "do": "Fit again on the labelled traffic of this range",
        "command": "demur fit m --since 2026-11-01T00:00:00Z --until 2026-11-08T00:00:00Z",
    } in steps


def test_a_kept_promise_asks_for_nothing():
    found = document(0.5)
    assert found["headline"]["verdict"] == "kept"
    assert [step["command"] for step in found["next_steps"]] == [""]
    assert "Nothing has to be done" in found["next_steps"][0]["do"]


@pytest.mark.parametrize(("all_known", "asked"), [(False, True), (True, False)])
def test_missing_reviews_come_first_unless_every_outcome_is_known(all_known, asked):
    labels = {"refused": ["held"], "share_missing": 1.0, "all_known": all_known, "never": 0, "labelled_answered": 400}
    headline = {"verdict": "kept", "judgements": [], "subjects": [], "policy": None}
    steps = next_steps({"headline": headline, "why": {"calibration": []}, "labels": labels, "model": "m"})
    assert any(step["do"].startswith("Decide the open cases") for step in steps) is asked


@pytest.mark.parametrize(("all_known", "asked"), [(False, True), (True, False)])
def test_more_spot_checks_are_advised_unless_every_outcome_is_known(all_known, asked):
    labels = {"refused": [], "share_missing": 0.0, "all_known": all_known, "never": 0, "labelled_answered": 85}
    headline = {
        "verdict": "not enough evidence",
        "judgements": [{"verdict": "not enough evidence", "target": 0.1}],
        "subjects": [],
        "policy": None,
    }
    steps = next_steps({"headline": headline, "why": {"calibration": []}, "labels": labels, "model": "m"})
    assert any("spot_check" in step["do"] for step in steps) is asked
    assert any(step["do"].startswith("Wait for more answers") for step in steps) is not asked


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("better", "Calibration made the confidence better: "),
        ("worse", "Calibration made the confidence worse: "),
        ("no clear change", "Whether calibration made the confidence better is not shown: "),
    ],
)
def test_calibration_in_words(says, words):
    ends = {"lower": 0.1, "upper": 0.2}
    one = {"metric": "ece", "before": {"value": 0.095, **ends}, "after": {"value": 0.162, **ends}, "says": says}
    told = reason_words.calibration_in_words({"why": {"calibration": [one]}})
    assert told.startswith(words)
    assert "0.162 after it and 0.095 before" in told


def test_an_over_confident_model_is_called_so():
    found = document()
    assert found["why"]["drift"]["surprise"] == "more"
    assert reason_words.changes_in_words(found)[0].startswith("The confidence is too sure: it foresaw ")


def test_a_change_over_time_needs_an_interval_without_zero():
    risk = {"before": 0.05, "after": 0.09, "difference": 0.04, "lower": 0.02, "upper": 0.06}
    worse = reason_words.changes_in_words({"why": {"drift": {"risk": risk}}})
    assert worse == [
        "It became worse over time: 5.0% of the answers were wrong in the first half, 9.0% in the second; the"
        " difference is +4.0 points (+2.0 to +6.0)."
    ]
    (same,) = reason_words.changes_in_words({"why": {"drift": {"risk": {**risk, "lower": -0.01}}}})
    assert same.startswith("No change is shown")


def test_the_board_has_one_page_and_the_report_begins_with_it():
    found = document(promise=True, policy=True)
    board, whole = board_page(found, report_at="/audit/reports/1"), page(found)
    for words in ("No promise about wrong answers", "Why, and what now", "What now"):
        assert words in board
        assert words in whole
    assert board.count("<svg role=") == 1
    assert 'href="/audit/reports/1"' in board
    assert 'id="method"' in whole
    assert 'id="method"' not in board


def test_a_term_is_explained_where_it_first_stands():
    found = page(document())
    first = found.index("expected calibration error")
    assert found[:first].rstrip().endswith('<dfn>ECE</dfn><span class="of">')
    assert '<abbr title="expected calibration error">ECE</abbr>' in found[first:]
