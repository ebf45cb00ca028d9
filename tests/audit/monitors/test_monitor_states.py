"""Monitors as plain numbers: the same in whatever portions data comes, quiet without a change, awake after one."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.exchangeability import conformal_p_values
from demur.audit.metrics.risk_monitor import risk_monitor
from demur.audit.metrics.risk_sequence import risk_sequence
from demur.audit.monitors import jumper as jumping
from demur.audit.monitors.jumper import N_STEPS, jumper_from_json, new_jumper, steps_of
from demur.audit.monitors.path import MOST, Path, path_from_json
from demur.audit.monitors.reference import (
    ConfusionCount,
    ReferenceSample,
    UnlabelledRecord,
    compared,
    comparison_from_json,
    sample_from_json,
)
from demur.audit.monitors.risk import RiskSettings, new_risk_state, risk_state_from_json
from demur.audit.monitors.traffic import TrafficSettings, TrafficState, traffic_state_from_json
from demur.audit.monitors.wording import (
    confidence_words,
    corrected_risk,
    held_words,
    percent,
    reviewers_sentence,
    risk_sentence,
    risk_words,
    traffic_sentence,
)
from demur.audit.reviewer_error import reviewer_error, share_called_wrong
from demur.review.disagreement import DecidedCheck

KEPT = RiskSettings(target=0.1, delta=0.05)


def labels(n, risk, seed=0, probabilities=(0.1, 0.5)):
    rng = np.random.default_rng(seed)
    return (rng.random(n) < risk).astype(float).tolist(), rng.choice(probabilities, n).tolist()


def stored(state, read):
    """The state after it was written down and read again."""
    return read(json.loads(json.dumps(state.as_json(), allow_nan=False)))


def fed_in_portions(state, columns, cuts, feed, read):
    edges = [0, *sorted(cuts), len(columns[0])]
    for start, end in pairwise(edges):
        state = stored(feed(state, *(column[start:end] for column in columns)), read)
    return state


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=6))
def test_portions_and_restarts_do_not_matter_to_the_risk(cuts):
    losses, chances = labels(300, 0.15)
    fresh = new_risk_state(KEPT, 0.1)
    at_once = fresh.updated(losses, chances)
    cut = fed_in_portions(fresh, (losses, chances), cuts, lambda s, e, p: s.updated(e, p), risk_state_from_json)
    assert cut.bets == at_once.bets
    assert cut.counts == at_once.counts
    assert (cut.lower, cut.upper) == pytest.approx((at_once.lower, at_once.upper), abs=1e-11)
    assert cut.path.steps == at_once.path.steps
    assert np.array(cut.path.values) == pytest.approx(np.array(at_once.path.values), abs=1e-11)


def test_it_is_the_monitor_and_the_sequence_of_the_definitions():
    losses, chances = labels(400, 0.2)
    state = new_risk_state(KEPT, 0.1).updated(losses, chances)
    known = np.ones(400)
    alarm = risk_monitor(losses, known, chances, 0.1, 0.1)
    interval = risk_sequence(losses, known, chances, 0.1)
    assert state.bets.log_wealth == alarm.log_wealth[-1]
    assert state.bets.p_value == alarm.p_value
    assert state.bets.alarm_at == alarm.alarm_at
    assert (state.lower, state.upper) == pytest.approx((interval.lower[-1], interval.upper[-1]), abs=1e-11)
    assert state.estimate == pytest.approx(np.average(losses, weights=1 / np.array(chances)))


def test_a_label_rarer_than_was_declared_lowers_the_floor_for_good():
    state = new_risk_state(KEPT, 0.5).updated([0.0, 1.0, 0.0], [0.5, 0.1, 0.5])
    assert (state.floor, state.bets.floor) == (0.1, 0.1)
    assert state.lowered(0.3).floor == 0.1
    in_turn = new_risk_state(KEPT, 0.5)
    for loss, chance in zip([0.0, 1.0, 0.0], [0.5, 0.1, 0.5], strict=True):
        in_turn = in_turn.updated([loss], [chance])
    assert in_turn.bets == state.bets


def test_without_a_promise_there_is_an_interval_alone():
    losses, chances = labels(200, 0.2)
    state = stored(
        new_risk_state(RiskSettings(target=None, delta=0.05), 0.1).updated(losses, chances), risk_state_from_json
    )
    assert not state.alarmed
    assert 0 < state.lower < 0.2 < state.upper < 1
    assert risk_sentence(state).startswith("Nothing was promised. Of 200 checked answers")


@pytest.mark.long
@pytest.mark.slow
def test_the_share_of_false_alarms_about_the_risk():
    """At the promised risk itself, 2,000 labels long."""
    alarms = 0
    for seed in range(150):
        losses, chances = labels(2000, 0.1, seed=seed)
        alarms += new_risk_state(KEPT, 0.1).updated(losses, chances).alarmed
    assert alarms <= 14  # of a chance of 5% at most, fifteen or more come up once in 100


def confidences(rng, n, shift=0.0):
    return 1 / (1 + np.exp(-rng.normal(2.2 + shift, 1.6, n)))


def test_p_values_of_the_jumper_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    reference, stream = np.round(confidences(rng, 100), 2), np.round(confidences(rng, 2500), 2)
    stream[::7] = np.nan
    uniforms = rng.random(2500)
    counts = np.bincount(steps_of(reference), minlength=N_STEPS)
    p = jumping._p_values(counts, steps_of(stream), uniforms)
    assert np.array_equal(p, conformal_p_values(steps_of(reference), steps_of(stream), uniforms))
    assert counts.sum() == 2600


def test_its_first_capital_is_the_simple_jumper_of_the_definition():
    """Half of all capital enters at the first record: without what enters later it is that jumper."""
    from demur.audit.metrics.exchangeability import exchangeability_martingale

    p = np.random.default_rng(2).random(300) ** 2
    one = new_jumper(np.array([0.5]), 0.05)._bet(p)
    plain = exchangeability_martingale(p).log_martingale[-1]
    assert one.log_capital >= plain - np.log(2)
    assert new_jumper(np.array([0.5]), 0.05)._bet(p[:1]).log_wealth == pytest.approx(
        np.log(np.exp(exchangeability_martingale(p[:1]).log_martingale[0]) / 2 + 0.5)
    )


def test_the_capital_is_a_fair_game():
    """On average over uniform p-values wealth stays 1: the sum over a grid of all pairs of them."""
    grid = (np.arange(50) + 0.5) / 50
    wealth = [np.exp(new_jumper(np.array([0.5]), 0.05)._bet(np.array([a, b])).log_wealth) for a in grid for b in grid]
    assert np.mean(wealth) == pytest.approx(1.0, abs=1e-12)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 1500), max_size=5))
def test_portions_and_restarts_do_not_matter_to_the_jumper(cuts):
    rng = np.random.default_rng(3)
    steps, uniforms = steps_of(confidences(rng, 1500)), rng.random(1500)
    fresh = new_jumper(confidences(rng, 200), 0.05)
    at_once = fresh.updated(steps, uniforms)
    assert fed_in_portions(fresh, (steps, uniforms), cuts, lambda j, s, u: j.updated(s, u), jumper_from_json) == at_once


def test_steps():
    told = [np.nan, 0.0, 0.25, 0.5, 0.75, 1.0]
    steps = steps_of(np.array(told))
    assert steps.tolist() == sorted(steps.tolist())
    assert len(set(steps.tolist())) == len(told)
    assert 0 <= steps.min() <= steps.max() < N_STEPS
    assert steps[1] + steps[5] == 2 * steps[3]


@pytest.mark.long
@pytest.mark.slow
def test_the_share_of_false_alarms_about_the_confidence():
    alarms = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        one = new_jumper(confidences(rng, 500), 0.05)
        alarms += one.updated(steps_of(confidences(rng, 3000)), rng.random(3000)).alarm_at is not None
    assert alarms <= 24  # of a chance of 5% at most, twenty-five or more come up once in 100


@pytest.mark.parametrize("quiet", [500, 20_000])
def test_a_long_quiet_past_does_not_put_it_to_sleep(quiet):
    rng = np.random.default_rng(4)
    one = new_jumper(confidences(rng, 1000), 0.01).updated(steps_of(confidences(rng, quiet)), rng.random(quiet))
    assert one.alarm_at is None
    one = one.updated(steps_of(confidences(rng, 1000, shift=-0.8)), rng.random(1000))
    assert quiet < one.alarm_at < quiet + 600


def seen(rng, n, *, held=0.2, shift=0.0, label="7"):
    sure = confidences(rng, n, shift)
    return [
        UnlabelledRecord(confidence=c, held=h, prediction=label, scores={"margin": 1 - c, "other": None})
        for c, h in zip(sure.tolist(), (rng.random(n) < held).tolist(), strict=True)
    ]


def traffic(rng, n=1000):
    settings = TrafficSettings(delta=0.01, reference=n)
    reference = seen(rng, n)
    return TrafficState(settings=settings).counted(reference, [0.0] * n).begun(ReferenceSample().added(reference))


@pytest.mark.parametrize("held", [0.05, 0.4])
def test_more_or_less_that_is_held_is_found(held):
    rng = np.random.default_rng(5)
    state = traffic(rng)
    quiet = stored(state.compared(seen(rng, 2000), rng.random(2000)), traffic_state_from_json)
    assert quiet.alarmed == ()
    changed = quiet.compared(seen(rng, 2000, held=held), rng.random(2000))
    assert changed.alarmed == ("held",)
    assert "predictions were not answered, and by the reference it would be" in held_words(changed)
    assert "the share held" in traffic_sentence(changed)


def test_the_held_share_of_a_short_reference_is_not_taken_for_the_truth():
    """What 100 records leave open is no change: here the reference held 8%, and later it is 12%."""
    rng = np.random.default_rng(6)
    reference = [UnlabelledRecord(confidence=0.9, held=i < 8, prediction="7", scores={}) for i in range(100)]
    settings = TrafficSettings(delta=0.01, reference=100)
    state = TrafficState(settings=settings).begun(ReferenceSample().added(reference))
    later = [
        UnlabelledRecord(confidence=0.9, held=h, prediction="7", scores={}) for h in (rng.random(5000) < 0.12).tolist()
    ]
    assert state.compared(later, rng.random(5000)).alarmed == ()


def test_a_share_of_nothing_or_of_all_can_only_change_one_way():
    for held in (True, False):
        reference = [UnlabelledRecord(confidence=0.9, held=held, prediction="7", scores={})] * 100
        state = TrafficState(settings=TrafficSettings(delta=0.01, reference=100)).begun(
            ReferenceSample().added(reference)
        )
        assert (state.too_much is None, state.too_little is None) == (held, not held)
        later = [UnlabelledRecord(confidence=0.9, held=not held, prediction="7", scores={})] * 100
        assert state.compared(later, [0.5] * 100).alarmed == ("held",)


def test_what_could_never_be_checked_is_counted():
    rows = [UnlabelledRecord(confidence=0.9, held=held, prediction="7", scores={}) for held in (True, False, False)]
    state = TrafficState(settings=TrafficSettings(delta=0.01, reference=100)).counted(rows, [1.0, 0.0, 0.02])
    assert (state.n, state.n_answered, state.n_never) == (3, 2, 1)


def test_a_comparison():
    rng = np.random.default_rng(7)
    reference = stored(ReferenceSample().added(seen(rng, 300)), sample_from_json)
    same = compared(reference, ReferenceSample().added(seen(rng, 300)))
    other = compared(
        reference, ReferenceSample().added(seen(rng, 150, shift=-1.5) + seen(rng, 150, shift=-1.5, label="1"))
    )
    assert [drift.name for drift in same.drifts] == ["confidence", "margin", "other"]
    assert same.drifts[0].psi < 0.15 < other.drifts[0].psi
    assert other.drifts[1].ks_p_value < 0.001 < same.drifts[1].ks_p_value
    assert other.drifts[2].psi is None
    assert other.drifts[2].unknown_now == 1.0
    assert [(one.label, one.now) for one in other.labels] == [("1", 0.5), ("7", 0.5)]
    assert other.labels_p_value < 0.001
    assert same.labels_psi is None  # there is but one
    assert stored(other, comparison_from_json) == other
    assert compared(reference, ReferenceSample().added(seen(rng, 29))) is None


def test_classes_behind_the_predictions():
    """A model that takes a fifth of each class for the other, and classes that come 3 to 1 where they came 1 to 1."""
    confusion = [
        ConfusionCount(predicted=p, true=t, weight=80.0 if p == t else 20.0, n=20)
        for p in ("a", "b")
        for t in ("a", "b")
    ]
    rows = [
        UnlabelledRecord(confidence=0.9, held=False, prediction="a" if i < 65 else "b", scores={}) for i in range(100)
    ]
    now = ReferenceSample().added(rows)
    found = compared(now, now, confusion)
    assert [(one.label, one.before) for one in found.classes] == [("a", 0.5), ("b", 0.5)]
    assert [one.now for one in found.classes] == pytest.approx([0.75, 0.25])
    assert stored(found, comparison_from_json) == found
    assert compared(now, now, [replace(one, n=2) for one in confusion]).classes == ()
    assert compared(now, now, [replace(one, weight=1.0) for one in confusion]).classes == ()  # it tells nothing
    assert compared(now, now).classes == ()


def test_of_label_sets_each_label_counts():
    rows = [
        UnlabelledRecord(confidence=0.9, held=False, prediction=["a", "b"][: 1 + i % 2], scores={}) for i in range(100)
    ]
    one = ReferenceSample().added(rows)
    assert dict(one.predicted) == {"a": 100, "b": 50}
    assert compared(one, one).labels_psi is None


@pytest.mark.slow
@given(st.lists(st.integers(1, 700), min_size=1, max_size=8))
def test_a_line_is_the_same_in_whatever_portions_it_grows(portions):
    n = sum(portions)
    values = [(float(step), np.nan) for step in range(1, n + 1)]
    at_once = Path().extended(1, values)
    grown, done = Path(), 0
    for portion in portions:
        grown = path_from_json(json.loads(json.dumps(grown.as_json(), allow_nan=False)))
        grown = grown.extended(done + 1, values[done : done + portion])
        done += portion
    assert grown.steps == at_once.steps
    assert len(grown.steps) <= MOST
    assert n < MOST or len(grown.steps) > MOST / 2 - 2


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        ([], "No answer has been checked yet, so nothing is known of the risk; at most 10% may be wrong."),
        ([0.0] * 5, "Too early to tell: of 5 checked answers 0 were wrong (weighted 0%); at most 10% may be."),
        ([0.0] * 400, "The promise of at most 10% is kept: of 400 checked answers 0 were wrong"),
        ([0.0, 0.0, 0.0, 1.0] * 50, "The promise of at most 10% is broken: of 200 checked answers 50 were wrong"),
        ([0.0] * 19 + [1.0], "Too early to tell: of 20 checked answers 1 was wrong (weighted 5%)"),
        # after 500 right ones it had to be at most 1.1%, and all in all it is at least 1.5%: it has moved
        ([0.0] * 500 + [0.0, 0.0, 1.0] * 20, "No sign that the promise of at most 10% is broken: of 560 checked"),
        (([0.0] * 11 + [1.0]) * 8, "No sign that the promise of at most 10% is broken: of 96 checked answers 8 were"),
    ],
)
def test_how_it_stands_in_words(losses, says):
    state = new_risk_state(KEPT, 1.0).updated(losses, [1.0] * len(losses))
    assert risk_sentence(state).startswith(says)


def looks(*, hits=190, missed=10, cleared=485, accused=15):
    counts = ((True, True, hits), (False, True, missed), (False, False, cleared), (True, False, accused))
    return reviewer_error([DecidedCheck(first_overturns=a, truth_overturns=b, n=n) for a, b, n in counts])


def test_the_risk_is_also_told_without_the_errors_of_reviewers():
    """Reviewers call 3% of the right answers wrong: of 8% that they find wrong, 5% are."""
    losses = ([0.0] * 23 + [1.0, 1.0]) * 80
    state = new_risk_state(RiskSettings(target=0.1, delta=0.05), 1.0).updated(losses, [1.0] * len(losses))
    found = corrected_risk(state, looks())
    assert found.lower < 0.054 < found.upper
    assert found.lower < state.lower
    said = reviewers_sentence(state, looks())
    assert said.startswith("Corrected for the errors of reviewers a steady risk lies in ")
    assert "within the promised 10%: reviewers call 95.0% of the wrong answers wrong" in said
    tight = replace(state, settings=replace(state.settings, target=0.05))
    assert "on both sides of the promised 5%" in reviewers_sentence(tight, looks())
    broken = replace(state, settings=replace(state.settings, target=0.005))
    assert "above the promised 0.5%" in reviewers_sentence(broken, looks())
    free = replace(state, settings=replace(state.settings, target=None))
    assert "promised" not in reviewers_sentence(free, looks())


def fed(losses, error, target=0.1, portion=20):
    state = new_risk_state(RiskSettings(target=target, delta=0.05), 1.0)
    for at in range(0, len(losses), portion):
        some = losses[at : at + portion]
        state = state.updated(some, [1.0] * len(some), called_wrong=share_called_wrong(error, target))
    return state


def test_the_alarm_goes_by_the_risk_without_the_errors_of_reviewers():
    """Reviewers call 3% of the right answers wrong, and 4% of all: so 1% are wrong, and 2% were promised."""
    losses = ([0.0] * 24 + [1.0]) * 200
    plain, corrected = fed(losses, None, target=0.02), fed(losses, looks(cleared=9_700, accused=300), target=0.02)
    assert plain.alarmed
    assert not corrected.alarmed
    assert corrected.observed_alarmed
    assert corrected.bets == plain.bets
    said = risk_sentence(corrected, looks(cleared=9_700, accused=300))
    assert said.startswith(
        "No sign that the promise of at most 2% is broken, corrected for the errors of reviewers: of 5,000 checked"
    )
    assert "What reviewers say, not corrected, would be: broken" in said
    assert risk_state_from_json(json.loads(json.dumps(corrected.as_json()))) == corrected


def test_reviewers_who_miss_errors_hide_no_broken_promise():
    """They find half of the wrong answers: of 4% that are called wrong, 8% are, and 5% were promised."""
    losses, blind = ([0.0] * 24 + [1.0]) * 200, looks(hits=1_000, missed=1_000, cleared=1_000, accused=0)
    assert not fed(losses, None, target=0.05).alarmed
    state = fed(losses, blind, target=0.05)
    assert state.alarmed
    assert not state.observed_alarmed
    assert "is broken, corrected for the errors of reviewers" in risk_sentence(state, blind)
    assert "for which they would call 2.5% wrong" in risk_words(state)
    assert "if they err as often as in their second looks" in risk_words(state)


def test_evidence_from_before_the_errors_were_known_counts_only_against_a_smaller_share():
    state = new_risk_state(RiskSettings(target=0.1, delta=0.05), 1.0).updated([0.0, 1.0] * 5, [1.0] * 10)
    assert state.bets.log_wealth > 0
    smaller, larger = (state.updated([], [], called_wrong=share) for share in (0.05, 0.12))
    assert smaller.corrected_bets.log_wealth == state.bets.log_wealth
    assert larger.corrected_bets.log_wealth == 0
    assert share_called_wrong(looks(hits=10, missed=0), 0.1) is None


@pytest.mark.long
def test_at_a_kept_promise_reviewers_who_accuse_right_answers_raise_few_alarms():
    """Risk 1%, 2% promised, specificity 0.97 from 600 second looks: every monitor of what they say alarms."""
    rng, runs, alarms = np.random.default_rng(0), 40, {"plain": 0, "corrected": 0}
    for _ in range(runs):
        hits, cleared = int(rng.binomial(60, 0.9)), int(rng.binomial(600, 0.97))
        error = looks(hits=hits, missed=60 - hits, cleared=cleared, accused=600 - cleared)
        wrong = rng.random(6_000) < 0.01
        said = np.where(wrong, rng.random(6_000) < 0.9, rng.random(6_000) < 0.03).astype(float).tolist()
        state = fed(said, error, target=0.02, portion=2_000)
        alarms["plain"] += state.observed_alarmed
        alarms["corrected"] += state.alarmed
    assert alarms["plain"] == runs
    assert alarms["corrected"] <= 0.25 * runs


def test_with_too_few_second_looks_the_monitor_says_so():
    state = new_risk_state(KEPT, 1.0).updated([0.0] * 50, [1.0] * 50)
    assert corrected_risk(state, looks(hits=10, missed=0)) is None
    assert reviewers_sentence(state, looks(hits=10, missed=0)) == (
        "What reviewers say is not corrected for their errors: blind second looks were decided at 10 wrong and 500"
        " right answers, and 20 of each are needed (`review.re_review`)."
    )
    assert reviewers_sentence(new_risk_state(KEPT, 1.0), looks()) == ""  # nothing is labelled
    assert reviewers_sentence(state, None) == ""


def test_alarms_in_words():
    broken = new_risk_state(KEPT, 1.0).updated([0.5] * 100, [1.0] * 100)
    assert risk_words(broken) == (
        "more answers are wrong than was promised: of 100 checked ones 50 were, weighted 50%, and at most 10% may be;"
        " such an alarm comes by chance with probability 5% at most"
    )
    assert "have more of them checked" in confidence_words(traffic(np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("share", "words"), [(0.0, "0%"), (0.02, "2%"), (1 / 3, "33.3%"), (0.0004, "0.04%"), (float("nan"), "–")]
)
def test_percent(share, words):
    assert percent(share) == words
