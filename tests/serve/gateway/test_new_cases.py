"""Which rules apply to a record, and what they and the caller's wishes come to."""

from datetime import UTC, datetime, timedelta
from math import nan

import pytest
from uuid_utils.compat import uuid7

from demur.serve.config.review import Band, ReviewConfig, ReviewRule
from demur.serve.contract.wire import ReviewWishes
from demur.serve.gateway.new_cases import NewCases
from demur.traffic.draw import Draws, limit
from tests.conftest import entry
from tests.serve.scripted import configured

KEY = "a key that tests know"
MODEL = configured("binary")


def case_of(rules=(), wishes=None, model=MODEL, **record):
    read = [ReviewRule.model_validate(rule) for rule in rules]
    cases = NewCases(KEY, ReviewConfig(rules=tuple(read)))
    return cases.of(entry(**record).record, model, ReviewWishes(**wishes) if wishes else None)


@pytest.mark.parametrize(
    ("band", "value", "in_confidence", "in_score"),
    [
        ({"below": 0.5}, 0.4, True, True),
        ({"below": 0.5}, 0.5, False, False),  # the ends are not in it
        ({"above": 0.5}, 0.5, False, False),
        ({"above": 0.5}, 0.6, True, True),
        ({"above": 0.2, "below": 0.5}, 0.3, True, True),
        ({"above": 0.2, "below": 0.5}, 0.1, False, False),
        ({"below": 0.5}, None, True, False),  # an unknown confidence is as low as can be, an unknown score as high
        ({"above": 0.5}, None, False, True),
        ({"above": 0.2, "below": 0.5}, None, False, False),
        ({"below": 0.5}, nan, True, False),
        ({"above": 0.5}, nan, False, True),
    ],
)
def test_a_band(band, value, in_confidence, in_score):
    rule = {"when": {"confidence": band}, "priority": 1}
    assert (case_of([rule], confidence=value).priority == 1) == in_confidence
    rule = {"when": {"scores": {"entropy": band}}, "priority": 1}
    assert (case_of([rule], scores={"entropy": value}).priority == 1) == in_score
    if value is None:
        assert (case_of([rule], scores={}).priority == 1) == in_score


@pytest.mark.parametrize(
    ("when", "applies"),
    [
        ({}, True),
        ({"models": ["other", "toy"]}, True),
        ({"models": ["other"]}, False),
        ({"groups": ["east"]}, True),
        ({"groups": ["west"]}, False),
        ({"models": ["toy"], "groups": ["west"]}, False),
        ({"groups": ["east"], "confidence": {"below": 0.7}, "scores": {"entropy": {"above": 1}}}, True),
        ({"groups": ["east"], "confidence": {"below": 0.6}, "scores": {"entropy": {"above": 1}}}, False),
    ],
)
def test_all_that_is_written_must_hold(when, applies):
    made = case_of([{"when": when, "opinions": 2}], group="east", confidence=0.65, scores={"entropy": 1.5})
    assert (made.opinions_wanted == 2) == applies


def test_no_group_is_in_none():
    assert case_of([{"when": {"groups": ["east"]}, "priority": 3}], group=None).priority == 0


def test_the_highest_priority_the_earliest_due_time_and_the_most_opinions_count():
    rules = [
        {"priority": 2, "due_minutes": 30, "opinions": 3},
        {"when": {"groups": ["east"]}, "priority": 5, "due_minutes": 60},
        {"when": {"groups": ["west"]}, "priority": 9, "due_minutes": 1, "opinions": 9},
        {"opinions": 2},
    ]
    at = datetime(2026, 11, 21, tzinfo=UTC)
    told = {"created_at": at, "group": "east"}
    made = case_of(rules, **told)
    assert (made.priority, made.due_at, made.opinions_wanted) == (5, at + timedelta(minutes=30), 3)
    made = case_of(rules, {"priority": 7, "due_seconds": 90}, **told)
    assert (made.priority, made.due_at) == (7, at + timedelta(seconds=90))
    made = case_of(rules, {"priority": 1, "due_seconds": 7200}, **told)  # a caller cannot put a case off
    assert (made.priority, made.due_at) == (5, at + timedelta(minutes=30))
    plain = case_of(**told)
    assert (plain.priority, plain.due_at, plain.opinions_wanted) == (0, None, 1)


def test_a_case_that_checks_an_answer_cannot_be_told_by_its_place():
    rule = {"when": {"groups": ["east"]}, "priority": 4, "due_minutes": 5, "opinions": 2}
    model = MODEL.model_copy(update={"spot_check": 1.0})
    held, checked = (case_of([rule], model=model, action=action, group="east") for action in ("review", "answer"))
    assert (held.kind, checked.kind) == ("held", "spot_check")
    assert (held.priority, held.opinions_wanted) == (checked.priority, checked.opinions_wanted) == (4, 2)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_share_is_drawn_by_the_id_and_for_each_rule_by_itself(share):
    rules = [{"when": {"share": share}, "priority": 1}, {"when": {"share": share}, "opinions": 2}]
    ids = [uuid7() for _ in range(200)]
    for _ in range(2):  # it comes out the same each time
        made = [case_of(rules, id=one) for one in ids]
        for n, drawn in ((1, [one.priority == 1 for one in made]), (2, [one.opinions_wanted == 2 for one in made])):
            draws = Draws(KEY, f"review-rule-{n}")
            assert drawn == [draws.of(str(one)) < limit(share) for one in ids]


def test_a_band_in_words():
    assert Band(above=0.25, below=0.5).words == "above 0.25 and below 0.5"
    rule = {
        "when": {"models": ["a", "b"], "groups": ["east"], "confidence": {"below": 0.5}, "share": 0.1},
        "due_minutes": 90,
        "opinions": 2,
        "priority": 0,
    }
    assert ReviewRule.model_validate(rule).words == (
        "0.1 of cases of a or b in group east with confidence below 0.5: priority 0, due within 90 minutes, 2 opinions"
    )
    assert ReviewRule(opinions=1).words == "cases of every model: 1 opinion"


@pytest.mark.parametrize(
    ("told", "spot_check", "re_review", "blind"),
    [
        (None, 0, 0, False),
        (None, 0.1, 0, True),  # nobody shall see by that which case is checked
        (None, 0, 0.1, True),
        (False, 0.1, 0.1, False),
        (True, 0, 0, True),
    ],
)
def test_who_answers_blindly(told, spot_check, re_review, blind):
    model = configured("binary", spot_check=spot_check, blind_review=told)
    assert NewCases(KEY, ReviewConfig(re_review=re_review)).of(entry().record, model).blind is blind
