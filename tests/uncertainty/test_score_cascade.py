from dataclasses import replace

import numpy as np
import pytest

from demur.audit.held_out import calibration_report, held_out_report, rank_report
from demur.calibration_store.fitting import fit_selectors
from demur.policies.all_of import AllOf, InDistribution
from demur.policies.conformal_sets import SampleFrequencySets
from demur.policies.decision import Action
from demur.policies.rejection_rate import RejectionRate
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import FitSplit, SelectorRecipe
from demur.policies.set_size import SetSize
from demur.policies.threshold import GivenLimit, TargetRisk
from demur.uncertainty.calibrators import CALIBRATORS, OF_SCORES
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.combination import Combined
from demur.uncertainty.generation import Generation, as_column
from demur.uncertainty.isotonic import Isotonic
from demur.uncertainty.score_cascade import Cascade, ScoreCascade
from demur.uncertainty.scores import SCORES
from tests.uncertainty.written import asked

CHEAP = np.array([0.1, 0.5, 0.6, 0.2, np.nan, 0.5, 3.0, 4.0])
DEAR = np.array([9.0, 9.0, 0.0, np.nan, 1.0, 2.0, np.nan, -0.5])


def test_rows_that_the_cheap_score_is_sure_of_rank_before_all_that_were_asked_further():
    u = ScoreCascade(first="cheap", then="dear", limit=0.5).of({"cheap": CHEAP, "dear": DEAR})
    assert u[[0, 1, 3, 5]] == pytest.approx([-0.4, 0.0, -0.3, 0.0])  # on the limit it is sure
    assert u[2] == 0.0
    assert np.isnan(u[[4, 6, 7]]).all()  # no cheap score; no dear one where it counts; one that is no dear score


@pytest.mark.parametrize(("share", "asked_further"), [(0.3, 3), (0.29, 2), (0.05, 0), (0.95, 9)])
def test_a_share_is_asked_further_and_never_more(share, asked_further):
    scores = {"cheap": np.random.default_rng(0).permutation(10).astype(float), "dear": np.zeros(10)}
    fitted = Cascade(first="cheap", then="dear", ask_share=share).fit(scores, np.ones(10))
    assert fitted.asks(scores["cheap"]).sum() == asked_further
    tied = {"cheap": np.ones(10), "dear": np.zeros(10)}
    assert not Cascade(first="cheap", then="dear", ask_share=share).fit(tied, np.ones(10)).asks(tied["cheap"]).any()


def test_the_share_is_of_the_rows_whose_cheap_score_is_known():
    scores = {"cheap": np.array([np.nan] * 90 + list(range(10))), "dear": np.zeros(100)}
    assert Cascade(first="cheap", then="dear", ask_share=0.3).fit(scores, np.ones(100)).limit == 6
    with pytest.raises(InvalidInput, match="cheap is unknown in every row"):
        Cascade(first="cheap", then="dear", ask_share=0.3).fit({"cheap": np.full(3, np.nan)}, np.ones(3))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "either a `limit`"),
        ({"limit": 1.0, "ask_share": 0.5}, "either a `limit`"),
        ({"ask_share": 1.0}, "ask_share"),
        ({"limit": float("nan")}, "limit is nan"),
        ({"limit": 1.0, "then": "cheap"}, "are one score"),
    ],
)
def test_a_cascade_that_is_not_clear_is_refused(settings, why):
    with pytest.raises(InvalidInput, match=why):
        Cascade(**{"first": "cheap", "then": "dear", **settings})


def recipe(**changes):
    settings = {
        "scores": {name: SCORES[name]() for name in ("g_nll", "semantic_entropy")},
        "combinations": {"u": Cascade(first="g_nll", then="semantic_entropy", limit=0.5)},
        "confidence_score": "u",
        "calibrator": Isotonic(),
        "policy": TargetRisk(max_risk=0.1),
        **changes,
    }
    return SelectorRecipe(**settings)


def fitted(rows, **changes):
    return recipe(**changes).fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))


@pytest.fixture(scope="module")
def rows():
    return asked(np.random.default_rng(0), n=300)


def without_samples(output):
    return replace(output, replies=as_column([replace(one, samples=()) for one in output.replies]))


def test_samples_are_wanted_above_the_limit_alone(rows):
    selector = fitted(rows)
    first_pass = without_samples(rows.output)
    wants = selector.wants_more(first_pass)
    np.testing.assert_array_equal(wants, selector.scores["g_nll"].of(rows.output) > 0.5)
    assert 0 < wants.sum() < len(rows)
    before, after = selector.decide(first_pass), selector.decide(rows.output)
    np.testing.assert_array_equal(before.confidence[~wants], after.confidence[~wants])
    assert np.isnan(before.confidence[wants]).all()
    assert np.isnan(before.scores["semantic_entropy"]).all()
    for row in np.flatnonzero(wants):
        assert before.decisions.actions[row] is Action.REVIEW  # unknown is held
    assert "samples" in selector.needs


SEMANTIC = {"combinations": {}, "confidence_score": "semantic_entropy"}
LISTED = {"scores": {name: SCORES[name]() for name in ("g_nll", "semantic_entropy", "sample_disagreement")}}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (SEMANTIC, "all"),
        ({"combinations": {}, "confidence_score": "g_nll"}, "all"),  # listed, and so recorded
        ({"confidence_score": "semantic_entropy"}, "all"),
        ({"policy": GivenLimit(score="semantic_entropy", limit=0.2)}, "all"),
        ({"policy": GivenLimit(score="g_nll", limit=0.2)}, "some"),
        (
            {
                "policy": AllOf(
                    gates=(InDistribution(score="semantic_entropy", quantile=0.9),), rule=TargetRisk(max_risk=0.1)
                )
            },
            "all",
        ),
        (LISTED, "all"),
        ({"sampled": True}, "all"),
        ({"sets": SampleFrequencySets(alpha=0.1, source="samples")}, "all"),
        (
            {
                "combinations": {
                    "u": Cascade(first="g_nll", then="semantic_entropy", limit=0.5),
                    "mixed": Combined(info="g_nll", consistency="semantic_entropy"),
                }
            },
            "all",
        ),
        ({"scores": {"g_nll": SCORES["g_nll"]()}, "combinations": {}, "confidence_score": "g_nll"}, "none"),
        ({"confidence_score": "g_nll"}, "some"),
    ],
)
def test_what_reads_samples_of_every_row_wants_them_of_every_row(rows, changes, wanted):
    wants = fitted(rows, **changes).wants_more(without_samples(rows.output))
    assert {0: "none", len(rows): "all"}.get(int(wants.sum()), "some") == wanted


def test_a_row_that_could_not_be_read_wants_nothing_more(rows):
    reasons = np.array([None, "no letter in the reply"] * 150, dtype=object)
    output = replace(without_samples(rows.output), unreadable=reasons)
    for changes in ({}, SEMANTIC):
        wants = fitted(rows, **changes).wants_more(output)
        assert not wants[1::2].any()
        assert wants[::2].any()


def test_only_what_is_fitted_needs_rows_of_its_own():
    assert not recipe().combination_learns
    assert not recipe().decision_learns
    assert recipe(combinations={"u": Cascade(first="g_nll", then="semantic_entropy", ask_share=0.5)}).combination_learns
    learnt = {"trace": SCORES["trace"](), "eigv_laplacian": SCORES["eigv_laplacian"]()}
    mixed = recipe(scores=learnt, combinations={"u": Combined(info="trace", consistency="eigv_laplacian")})
    assert mixed.scores_learn
    assert mixed.decision_learns
    assert not mixed.combination_learns


def damaged(rows, *, unread=(), unscored=()):
    """The same with rows that could not be read, and rows without log-probabilities."""
    replies = rows.output.replies.copy()
    for at in unscored:
        replies[at] = replace(replies[at], first=Generation(text="yes"), spans={})
    why = np.full(len(rows), None, dtype=object)
    probabilities, logits = rows.output.probabilities.copy(), rows.output.logits.copy()
    for at in unread:
        why[at], probabilities[at], logits[at] = "no letter in the reply", np.nan, np.nan
    output = replace(rows.output, replies=replies, unreadable=why, probabilities=probabilities, logits=logits)
    return replace(rows, output=output)


BARE = {"scores": {"g_nll": SCORES["g_nll"]()}, "combinations": {}, "confidence_score": "g_nll"}


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_nothing_is_fitted_on_rows_that_say_too_little_and_they_are_held(rows, calibrator):
    improbable = {"scores": {"u": SCORES["improbability"]()}, "confidence_score": "u"}
    settings = {**BARE, **improbable, "calibrator": CALIBRATORS[calibrator]()}
    hurt = damaged(rows, unread=range(20), unscored=range(20, 40))
    by_score = settings["calibrator"].reads in OF_SCORES
    kept = rows.rows(slice(40 if by_score else 20, None))
    selector, alone = fitted(hurt, **settings), fitted(rows.rows(slice(40, None)), **settings)
    decided = selector.decide(hurt.output)
    if by_score:
        assert np.isnan(decided.confidence[:40]).all()
        assert {decided.decisions.actions[row] for row in range(40)} == {Action.REVIEW}
        np.testing.assert_array_equal(decided.confidence[40:], alone.decide(kept.output).confidence)
    assert decided.decisions.reasons[0] == "no letter in the reply"


@pytest.mark.parametrize(
    "policy",
    [
        TargetRisk(max_risk=0.2),
        RejectionRate(rate=0.3),
        SelectiveRisk(max_risk=0.45),
        AllOf(gates=(InDistribution(score="g_nll", quantile=0.9),), rule=TargetRisk(max_risk=0.2)),
    ],
)
def test_every_rule_can_be_fitted_beside_them(rows, policy):
    selector = fitted(damaged(rows, unread=range(20), unscored=range(20, 40)), **BARE, policy=policy)
    decided = selector.decide(damaged(rows, unread=range(20), unscored=range(20, 40)).output)
    assert not decided.decisions.answered[:40].any()
    assert decided.decisions.answered[40:].any()


def test_what_could_not_be_read_counts_among_the_held(rows):
    kept = fitted(damaged(rows, unread=range(60)), **BARE, policy=RejectionRate(rate=0.2))
    assert kept.decide(rows.output).decisions.answered[60:].all()  # the 60 that were held anyway are the share


def test_a_model_whose_replies_all_say_nothing_cannot_be_fitted(rows):
    with pytest.raises(InvalidInput, match="none of the model's 300 replies could be read; the first: no letter"):
        fitted(damaged(rows, unread=range(300)), **BARE)
    with pytest.raises(InvalidInput, match="unknown in all of 300 rows"):
        fitted(damaged(rows, unscored=range(300)), **BARE)


def test_sets_of_samples_rule_out_nothing_where_there_are_none(rows):
    sets = SampleFrequencySets(alpha=0.2, source="samples")
    selector = fitted(rows, **SEMANTIC, sets=sets, policy=SetSize())
    assert selector.sets.qhat < 1
    silent = without_samples(rows.output)
    assert selector.labels(silent)[1].all()
    assert not selector.decide(silent).decisions.answered.any()
    two = replace(silent, replies=as_column([replace(one, options=(0, 1)) for one in silent.replies]))
    assert selector.labels(two)[1].sum(axis=1).tolist() == [2] * len(rows)


def fit(rows, **changes):
    return fit_selectors(
        {"m": recipe(**changes)},
        {"m": rows},
        report=held_out_report,
        cross_report=calibration_report,
        rank_report=rank_report,
        report_share=0.4,
        rng=np.random.default_rng(0),
    )


def test_a_fit_says_how_many_rows_were_left_out_and_reports_on_the_others(rows):
    done = fit(damaged(rows, unread=range(30), unscored=range(30, 45)), **BARE)
    assert done.remarks[-2:] == [
        "30 of 300 replies could not be read; they are held, and not fitted on",
        "g_nll is undefined for 15 of 300 rows; they are held, and its calibrator was not fitted on them",
    ]
    counted, known = done.report["coverage"]["n"], done.report["ece"]["n"]
    assert counted == done.n_reported == 120
    assert 120 - 45 <= known < 120
    assert done.report["accuracy"]["value"] < fit(rows, **BARE).report["accuracy"]["value"]
    assert done.crossfit["ece"]["value"] is not None
    assert done.ranking["m"]["n"] == known


def test_a_fit_of_whole_rows_says_nothing_of_the_kind(rows):
    assert not [remark for remark in fit(rows).remarks if "held" in remark]


def test_a_cascade_of_scores_is_fitted_where_all_samples_are_drawn(rows):
    share = {"u": Cascade(first="g_nll", then="semantic_entropy", ask_share=0.4)}
    done = fit(rows, combinations=share)
    limit = done.selector.combinations["u"].limit
    assert 0.3 < (done.selector.scores["g_nll"].of(rows.output) > limit).mean() < 0.5
