from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.all_of import AllOf, InDistribution, SmallSet
from demur.policies.conformal_sets import SampleFrequencySets
from demur.policies.rejection_rate import RejectionRate
from demur.policies.selector_recipe import FitSplit, SelectorRecipe
from demur.policies.set_size import SetSize
from demur.policies.threshold import GivenLimit, TargetRisk
from demur.serve.config.prompt import SamplesConfig
from demur.serve.hosts.language.budget import MOST_COMPLETIONS, completions, more, n_completions
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.generation import as_column
from demur.uncertainty.readings import with_sample_probabilities
from demur.uncertainty.score_cascade import Cascade
from demur.uncertainty.scores import SCORES
from tests.uncertainty.written import asked, of_replies

MOST = 5
WIDTH = 3
BUDGET = SamplesConfig(min=1, max=MOST, stop="decision")

POLICIES = {
    "limit": GivenLimit(limit=0.7),
    "lower limit": GivenLimit(limit=0.4),
    "target": TargetRisk(max_risk=0.2, otherwise="abstain"),
    "rate": RejectionRate(rate=0.5),
    "score": GivenLimit(score="semantic_entropy", limit=0.6),
    "sets": SetSize(answer_up_to=2, when_empty="review", when_full="abstain"),
    "gates": AllOf(
        gates=(SmallSet(at_most=2, otherwise="abstain"), InDistribution(score="sample_disagreement", quantile=0.8)),
        rule=GivenLimit(limit=0.3),
    ),
}
CONFIDENCE = ("g_nll", "semantic_entropy", "sample_disagreement", "u")


@cache
def selector(policy, confidence, *, sampled, calibrator="platt", seed=0):
    """Fitted on rows whose samples tell something."""
    rng = np.random.default_rng(seed)
    rows = asked(rng, n=120, width=WIDTH)
    agree = [
        replace(one, samples=tuple(int(truth) if rng.random() < 0.5 else said for said in one.samples[:MOST]))
        for one, truth in zip(rows.output.replies, rows.classes, strict=True)
    ]
    output = replace(rows.output, replies=as_column(agree))
    rows = replace(rows, output=with_sample_probabilities(output) if sampled else output)
    recipe = SelectorRecipe(
        scores={name: SCORES[name]() for name in ("g_nll", "semantic_entropy", "sample_disagreement")},
        combinations={"u": Cascade(first="g_nll", then="semantic_entropy", limit=0.8)},
        confidence_score=confidence,
        calibrator=CALIBRATORS[calibrator](),
        policy=POLICIES[policy],
        sets=SampleFrequencySets(alpha=0.2, source="samples"),
        sampled=sampled,
    )
    return recipe.fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))


@cache
def rows_to_judge():
    return asked(np.random.default_rng(7), n=30, width=WIDTH).output.replies.tolist()


def decided(one, replies):
    """Action and prediction of a row with these replies, as whoever serves it would come to them."""
    output = of_replies([replies], width=WIDTH)
    judgement = one.decide(with_sample_probabilities(output) if one.sampled else output)
    return judgement.decisions.actions[0], tuple(judgement.predicted[0].tolist())


configured = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(list(POLICIES)),
        "confidence": st.sampled_from(CONFIDENCE),
        "sampled": st.booleans(),
        "calibrator": st.sampled_from(["platt", "isotonic"]),
    }
)
outcomes = st.sampled_from([0, 1, 2, None])


@pytest.mark.slow
@settings(deadline=None)  # the first of each kind is fitted
@given(
    several=st.lists(configured, min_size=1, max_size=3),
    at=st.integers(0, 29),
    samples=st.lists(outcomes, min_size=1, max_size=MOST),
    n_options=st.integers(2, WIDTH),
)
def test_it_stops_just_where_no_continuation_changes_any_decision(several, at, samples, n_options):
    judges = [selector(**one) for one in several]
    offered = tuple(range(n_options))
    drawn = tuple(None if said is None else said % n_options for said in samples)
    replies = replace(rows_to_judge()[at], options=offered, samples=drawn)
    wants = more(judges, BUDGET)(of_replies([replies], width=WIDTH))
    now = [decided(one, replies) for one in judges]
    changes = any(
        [decided(one, replace(replies, samples=(*drawn, *rest))) for one in judges] != now
        for rest in product((*offered, None), repeat=MOST - len(drawn))  # in every order
    )
    assert wants.tolist() == [changes]


def test_it_saves_samples_where_it_can():
    judge = selector("score", "semantic_entropy", sampled=False)
    replies = [replace(one, samples=(1, 2, 0)) for one in rows_to_judge()]
    assert not more([judge], BUDGET)(of_replies(replies, width=WIDTH)).any()  # too much in doubt, come what may
    fewer = [replace(one, samples=(1, 1, 1)) for one in rows_to_judge()]
    assert more([judge], BUDGET)(of_replies(fewer, width=WIDTH)).all()


def test_it_is_not_asked_before_the_least_number_and_never_after_the_most():
    judge = selector("score", "semantic_entropy", sampled=False)
    for n, wanted in ((0, True), (2, True), (3, False), (MOST, False)):
        replies = [replace(rows_to_judge()[0], samples=(1, 2, 0, 0, 1)[:n])]
        budget = SamplesConfig(min=3, max=MOST, stop="decision")
        assert more([judge], budget)(of_replies(replies, width=WIDTH)).tolist() == [wanted]


def test_without_a_stop_all_are_drawn_of_the_rows_that_need_any():
    gated = replace(selector("limit", "u", sampled=False), sets=None, scores=dict_of("g_nll", "semantic_entropy"))
    replies = [replace(one, samples=()) for one in rows_to_judge()]
    output = of_replies(replies, width=WIDTH)
    wants = more([gated], SamplesConfig(max=MOST))(output)
    np.testing.assert_array_equal(wants, gated.scores["g_nll"].of(output) > 0.8)
    assert 0 < wants.sum() < len(replies)
    everybody = more([gated, selector("limit", "semantic_entropy", sampled=False)], SamplesConfig(max=MOST))
    assert everybody(output).all()
    drawn = of_replies([replace(one, samples=(0,) * MOST) for one in replies], width=WIDTH)
    assert not everybody(drawn).any()
    assert not more([], SamplesConfig())(output).any()


def dict_of(*names):
    return {name: selector("limit", "u", sampled=False).scores[name] for name in names}


def test_rows_of_a_batch_do_not_mind_each_other():
    judges = [selector("gates", "semantic_entropy", sampled=False), selector("target", "u", sampled=True)]
    rng = np.random.default_rng(3)
    replies = [
        replace(one, samples=tuple(int(said) for said in rng.integers(3, size=1 + at % 5)))
        for at, one in enumerate(rows_to_judge())
    ]
    output = of_replies(replies, width=WIDTH)
    together = more(judges, BUDGET)(output)
    assert [bool(more(judges, BUDGET)(output.rows(slice(at, at + 1)))[0]) for at in range(30)] == together.tolist()
    assert 0 < together.sum() < 30


def test_what_could_not_be_read_is_not_sampled_any_further():
    output = of_replies([replace(rows_to_judge()[0], samples=())] * 2, width=WIDTH, unreadable=["no letter", None])
    assert more([selector("limit", "semantic_entropy", sampled=False)], BUDGET)(output).tolist() == [False, True]


def test_probabilities_that_are_not_there_yet_are_waited_for():
    output = of_replies([replace(rows_to_judge()[0], samples=())], width=WIDTH)
    output = replace(output, probabilities=np.full((1, WIDTH), np.nan), logits=np.full((1, WIDTH), np.nan))
    assert more([selector("limit", "g_nll", sampled=True)], BUDGET)(output).tolist() == [True]


def test_completions_are_counted_before_they_are_made():
    replies = replace(rows_to_judge()[0], options=(0, 1, 2), samples=(0,))
    ways = list(completions(replies, 5))
    assert len(ways) == len(set(ways)) == n_completions(replies, 5) == 35
    assert all(len(way) == 4 for way in ways)
    assert {None, 0, 1, 2} == {said for way in ways for said in way}


def test_with_too_many_ways_to_go_on_all_are_drawn():
    wide = replace(rows_to_judge()[0], options=tuple(range(26)), samples=(1, 2, 0))
    assert n_completions(wide, 20) > MOST_COMPLETIONS
    judge = selector("score", "semantic_entropy", sampled=False)
    budget = SamplesConfig(min=1, max=20, stop="decision")
    output = of_replies([wide], width=26)
    assert more([judge], budget)(output).tolist() == [True]
    open_ended = replace(rows_to_judge()[0], options=None, said="a", samples=("a", "b", "c"))
    assert more([judge], budget)(of_replies([open_ended], width=WIDTH)).tolist() == [True]


class Broken:
    needs = frozenset({"samples"})

    def of(self, output):
        raise RuntimeError("no such luck")


def test_a_shadow_that_fails_draws_on_and_stops_nobody():
    judge = selector("score", "semantic_entropy", sampled=False)
    broken = replace(judge, scores={**judge.scores, "semantic_entropy": Broken()})
    output = of_replies([replace(rows_to_judge()[0], samples=(1, 2, 0))], width=WIDTH)
    assert more([judge], BUDGET)(output).tolist() == [False]
    assert more([judge, broken], BUDGET)(output).tolist() == [True]
    gate = replace(judge, scores={"g_nll": Broken(), "semantic_entropy": judge.scores["semantic_entropy"]}, sets=None)
    first = of_replies([replace(rows_to_judge()[0], samples=())], width=WIDTH)
    assert more([replace(gate, policy=GivenLimit(limit=0.5).fit(None))], BUDGET)(first).tolist() == [True]


def test_all_completions_of_a_row_are_judged_at_once():
    calls = []

    class Counted:
        needs = frozenset({"logprobs"})

        def of(self, output):
            calls.append(len(output))
            return SCORES["g_nll"](per="answer").of(output)

    judge = selector("limit", "u", sampled=False)
    judge = replace(judge, scores={**judge.scores, "g_nll": Counted()})
    more([judge], BUDGET)(of_replies([replace(rows_to_judge()[0], samples=(1,))], width=WIDTH))
    assert calls.count(1 + 35) == 1
