import json
from dataclasses import replace

import numpy as np
import pytest

from demur.audit.metrics.evidence import EvidenceStatus
from demur.audit.shadowing import NothingShadowed, shadowing
from demur.traffic.shadowed import ShadowedTraffic, ShadowSide


def side(predictions, actions, confidence):
    return ShadowSide(
        predictions=list(predictions), actions=list(actions), confidence=np.array(confidence, dtype=np.float64)
    )


def traffic(told, shadow, outcomes, probability, **changes):
    n = len(outcomes)
    columns = {
        "ids": [f"id {i}" for i in range(n)],
        "artifacts": ["a"] * n,
        "told": told,
        "shadow": shadow,
        "label_probability": np.array(probability, dtype=np.float64),
        "outcomes": outcomes,
        "reviewed": np.array([outcome is not None for outcome in outcomes]),
        "model_milliseconds": np.full(n, 10.0),
        "shadow_milliseconds": np.full(n, 1.0),
    }
    return ShadowedTraffic(**{**columns, **changes})


@pytest.fixture
def seen():
    """Seven records: four are answered, one of them checked at a quarter, and three are held."""
    predictions = ["x"] * 7
    return traffic(
        side(predictions, ["answer"] * 4 + ["review"] * 3, [0.9] * 4 + [0.4] * 3),
        side(predictions, ["answer"] * 3 + ["review", "answer", "abstain", "escalate"], [0.8] * 3 + [0.5] * 4),
        ["x", None, None, None, "y", "x", "x"],
        [0.25] * 4 + [1.0] * 3,
        artifacts=["a", "a", "canary", "a", "a", None, "a"],
    )


def test_every_record_counts_and_every_label_by_what_it_stands_for(seen):
    found = shadowing(seen, exact=False)
    assert (found.n, found.escalated) == (6, 1)
    assert found.told_by == {"a": 4, "canary": 1, "nobody": 1}
    assert (found.people_told, found.people_shadow) == (2, 1)
    lines = {line.name: line for line in found.numbers.differences}
    assert (lines["coverage"].a, lines["coverage"].b) == (4 / 6, 4 / 6)
    assert (lines["selective_risk"].a, lines["selective_risk"].b) == (0, 1 / 5)  # one of weight 1 beside one of 4
    assert lines["accuracy"].a == 5 / 6
    assert {name: cell.n for name, cell in found.numbers.flips.cells.items()} == {
        "answer_answer": 3,
        "answer_review": 1,
        "review_answer": 1,
        "review_review": 1,
    }
    assert found.flips == [3, 4]
    assert found.numbers.answered_and_right is None
    assert (found.numbers.n_labelled, found.waiting, found.never, found.not_drawn, found.undefined) == (3, 0, 0, 0, 0)
    assert (found.evidence_told.n_labelled, found.evidence_shadow.n_events) == (1, 1)
    assert found.evidence_told.status is EvidenceStatus.INSUFFICIENT
    assert (found.cost.n, found.cost.mean, found.cost.share_of_model) == (7, 1.0, 0.1)
    written = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert written["evidence_told"]["n_effective"] == 1
    assert written["numbers"]["flips"]["cells"]["answer_review"]["current_risk"] is None


def test_labels_that_nobody_drew_count_for_nothing_unless_there_is_one_for_each(seen):
    unasked = replace(seen, reviewed=np.array([False] * 5 + [True] * 2))
    found = shadowing(unasked, exact=False)
    assert (found.numbers.n_labelled, found.not_drawn, found.waiting, found.every_label) == (1, 2, 1, False)
    whole = replace(unasked, outcomes=["x", "y", "x", "x", "y", "x", None])  # the last one is escalated
    found = shadowing(whole, exact=False)
    assert (found.numbers.n_labelled, found.not_drawn, found.waiting, found.every_label) == (6, 0, 0, True)
    risk = found.numbers.differences[1]
    assert (risk.a, risk.b) == (1 / 4, 2 / 4)
    assert found.numbers.answered_and_right.only_current == 1


def test_answers_that_could_not_be_drawn_are_counted_and_left_out(seen):
    found = shadowing(replace(seen, label_probability=np.array([0.0] * 4 + [1.0] * 3)), exact=False)
    assert (found.never, found.numbers.n_labelled, found.not_drawn) == (4, 2, 1)
    assert np.isnan(found.numbers.differences[1].a)
    assert found.evidence_told.status is EvidenceStatus.NONE
    assert found.numbers.answered_and_right is None  # 0 and 1 are not one probability


def test_a_flat_draw_has_mcnemars_test(seen):
    found = shadowing(replace(seen, label_probability=np.full(7, 0.5)), exact=False)
    assert found.numbers.answered_and_right.only_current == 0


def test_a_label_without_a_confidence_is_not_used(seen):
    unsure = replace(seen.shadow, confidence=np.array([np.nan] + [0.5] * 6))
    found = shadowing(replace(seen, shadow=unsure), exact=False)
    assert (found.n, found.undefined, found.numbers.n_labelled) == (6, 1, 2)


@pytest.mark.parametrize(("exact", "risk"), [(False, 0.5), (True, 1.0)])
def test_sets_of_labels(exact, risk):
    one = side([["x", "y"]], ["answer"], [0.9])
    found = shadowing(traffic(one, one, [["x"]], [1.0]), exact=exact)
    assert found.numbers.differences[1].a == risk


def test_times_that_were_not_noted_are_not_zero(seen):
    found = shadowing(replace(seen, shadow_milliseconds=np.array([2.0, 4.0] + [np.nan] * 5)), exact=False)
    assert (found.cost.n, found.cost.mean, found.cost.median) == (2, 3, 3)
    found = shadowing(replace(seen, shadow_milliseconds=np.full(7, np.nan)), exact=False)
    assert found.as_json()["cost"] == {"n": 0, "mean": None, "median": None, "share_of_model": None}


def test_a_shadow_that_only_passed_on_is_said_to_have_decided_nothing(seen):
    onward = replace(seen.shadow, actions=["escalate"] * 7)
    with pytest.raises(NothingShadowed, match="passed all these records"):
        shadowing(replace(seen, shadow=onward), exact=False)
