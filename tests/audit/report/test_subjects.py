"""What the policy is about stands first, and a policy without a promise says so."""

from math import nan

import pytest

from demur.audit.report.grounds import Estimate, Grounds
from demur.audit.report.judgement import PromiseJudgement, PromiseVerdict
from demur.audit.report.subjects import most_used, policy_words, ranked, subjects
from demur.audit.report.verdict import ABOUT, overall
from demur.policies.promise import ANSWERS_WRONG, LABELS_NOT_PREDICTED

SETS_LACK = "of the sets lack the right label"


def judged(share: str, verdict: PromiseVerdict, *, named: bool = False) -> PromiseJudgement:
    grounds = Grounds(n=100, labelled=50, effective=nan, events=5, status="sufficient")
    estimate = Estimate(
        name="", of="", value=0.1, lower=0.05, upper=0.2, method="exact", naive=0.1, grounds=grounds, meaning=""
    )
    return PromiseJudgement(
        share=share, target=0.02, statement="", artifacts=() if named else ("a",), part="", verdict=verdict,
        estimate=estimate, why="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "kind", "about", "aim"),
    [
        ({"kind": "target_risk", "max_risk": 0.002}, "target_risk", "answers", 0.002),
        ({"kind": "selective_risk", "max_risk": 0.02}, "selective_risk", "answers", None),
        ({"kind": "conformal"}, "conformal", "sets", None),
        ({"kind": "all_of", "rule": {"kind": "target_risk", "max_risk": 0.1}}, "target_risk", "answers", 0.1),
        ({"kind": "observe", "rule": {"kind": "conformal"}}, "observe", "sets", None),
        ({"kind": "rejection_rate", "rate": 0.1}, "rejection_rate", "answers", None),
        ({"kind": "of a later version"}, "of a later version", "answers", None),
        ({}, "", "answers", None),
    ],
)
def test_what_a_policy_is_about(policy, kind, about, aim):
    words = policy_words({"policy": policy})
    assert (words.kind, words.about, words.aim) == (kind, about, aim)


def test_gates_before_the_rule_are_known():
    gates = [{"in_distribution": {"score": "mahalanobis", "quantile": 0.9}}, {"reply_finished": {}}, "odd"]
    policy = {"kind": "all_of", "gates": gates, "rule": {"kind": "selective_risk", "max_risk": 0.05}}
    assert policy_words({"policy": policy}).gates == ("in_distribution", "reply_finished")
    assert policy_words({"policy": policy["rule"]}).gates == ()


def test_the_policy_of_most_records_counts():
    policies = {"old": policy_words({"policy": {"kind": "conformal"}}), "new": policy_words({})}
    assert most_used(policies, {"old": 1, "new": 99, None: 5}) is policies["old"]  # the other one tells nothing
    assert most_used({"new": policies["new"]}, {"new": 99}) is None


def test_a_set_policy_ranks_sets_first():
    sets = judged(SETS_LACK, PromiseVerdict.KEPT)
    answers = judged(ANSWERS_WRONG, PromiseVerdict.KEPT)
    labels = judged(LABELS_NOT_PREDICTED, PromiseVerdict.KEPT)
    conformal = policy_words({"policy": {"kind": "conformal"}})
    assert ranked([labels, answers, sets], ABOUT, conformal) == [sets, answers, labels]
    assert ranked([labels, sets, answers], ABOUT, None) == [answers, sets, labels]


def test_a_limit_that_the_auditor_names_comes_first():
    sets, named = judged(SETS_LACK, PromiseVerdict.KEPT), judged(ANSWERS_WRONG, PromiseVerdict.KEPT, named=True)
    assert ranked([sets, named], ABOUT, policy_words({"policy": {"kind": "conformal"}})) == [named, sets]


def test_no_promise_is_said_before_the_sets_are_judged():
    policy = policy_words({"policy": {"kind": "target_risk", "max_risk": 0.002}})
    first, second = subjects([judged(SETS_LACK, PromiseVerdict.BROKEN)], ABOUT, policy, overall)
    assert first.words == "No promise about wrong answers"
    assert first.says.startswith("the policy target_risk makes none: it kept wrong answers within 0.2%")
    assert second.words == "The promise about prediction sets was broken"


def test_without_a_policy_and_a_judgement_nothing_is_promised():
    (only,) = subjects([], ABOUT, None, overall)
    assert (only.words, only.verdict) == ("No promise about wrong answers", PromiseVerdict.NOTHING)


def test_an_older_artifact_without_a_policy_promises_what_it_says():
    (only,) = subjects([judged(SETS_LACK, PromiseVerdict.UNDECIDED)], ABOUT, None, overall)
    assert only.words == "Not enough evidence about prediction sets"
