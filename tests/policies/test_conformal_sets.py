from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.policies.conformal import conformal_quantile
from demur.policies.conformal_sets import (
    AdaptiveSets,
    ClassConditionalSets,
    CumulativeSets,
    GroupConditionalSets,
    RegularisedSets,
    SplitSets,
)
from demur.policies.label_sets import SETS
from demur.policies.set_scores import CumulativeProbability
from demur.uncertainty.checks import InvalidInput

ROWS = st.lists(
    st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any).map(lambda row: np.array(row) / sum(row)),
    min_size=1,
    max_size=8,
).map(np.array)


@pytest.mark.parametrize(
    ("row", "share", "scores"),
    [
        ([0.5, 0.3, 0.2], 1.0, [0.5, 0.8, 1.0]),
        ([0.5, 0.3, 0.2], 0.5, [0.25, 0.65, 0.9]),
        ([0.5, 0.3, 0.2], 0.0, [0.0, 0.5, 0.8]),
        ([0.2, 0.3, 0.5], 1.0, [1.0, 0.8, 0.5]),
        ([0.25, 0.5, 0.25], 1.0, [0.75, 0.5, 1.0]),  # of equals the first comes first
        ([0.25, 0.5, 0.25], 0.5, [0.625, 0.25, 0.875]),
        ([0.0, 1.0, 0.0], 1.0, [1.0, 1.0, 1.0]),
    ],
)
def test_a_score_is_the_sum_of_all_before_and_a_share_of_the_label_itself(row, share, scores):
    np.testing.assert_allclose(
        CumulativeProbability(penalty=0, k_reg=0, own_share=share).of(np.array([row])), [scores], atol=1e-15
    )


@pytest.mark.parametrize(
    ("qhat", "members"),
    [
        (0.5, [True, False, False]),
        (0.8, [True, True, False]),
        (0.4, [True, False, False]),  # a set has at least one
        (-np.inf, [True, False, False]),
        (np.inf, [True, True, True]),
    ],
)
def test_a_set_goes_down_to_the_quantile(qhat, members):
    """Of an artifact that does not say what share of a label's own probability is in its score: all of it."""
    sets = CumulativeSets(alpha=0.1, qhat=qhat, penalty=0.0, k_reg=0)
    assert sets.of(np.array([[0.5, 0.3, 0.2]])).tolist() == [members]


@given(ROWS, st.floats(0, 1.1), st.floats(0, 1), st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0]))
def test_a_set_has_the_likeliest_labels_and_never_skips_one(rows, qhat, penalty, k_reg, share):
    members = CumulativeSets(alpha=0.1, qhat=qhat, penalty=penalty, k_reg=k_reg, own_share=share).of(rows)
    for row, inside in zip(rows, members, strict=True):
        assert inside.any()
        assert inside.all() or row[inside].min() >= row[~inside].max()


def test_the_quantile_is_that_of_the_right_labels():
    sets = AdaptiveSets(alpha=0.25).fit([[0.5, 0.3, 0.2]] * 3, [0, 1, 0])
    assert sets.qhat == pytest.approx(0.65)  # the third of 0.25, 0.25, 0.65
    assert sets == CumulativeSets(alpha=0.25, qhat=sets.qhat, penalty=0.0, k_reg=0, n=3, own_share=0.5)
    assert (
        AdaptiveSets(alpha=0.2)
        .fit([[0.5, 0.3, 0.2]] * 3, [0, 1, 0])
        .promise_in_words.endswith("(that takes 4 labelled rows)")
    )


def sure_and_right(rng, n, classes=50):
    """A model that is right nineteen times of twenty and knows when it is not."""
    logits = rng.normal(size=(n, classes)) * np.where(rng.random(n) < 0.9, 8, 1)[:, None]
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    return chances, (chances.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def test_sets_of_sure_inputs_are_not_filled_up():
    """Where all of a label's own probability counts, its second label comes in with the first."""
    rng = np.random.default_rng(0)
    rows, right = sure_and_right(rng, 2000)
    fresh, truth = sure_and_right(rng, 4000)
    now = AdaptiveSets(alpha=0.1).fit(rows, right)
    scores = CumulativeProbability(penalty=0.0, k_reg=0, own_share=1.0).of(rows)[np.arange(len(rows)), right]
    then = CumulativeSets(alpha=0.1, qhat=conformal_quantile(scores, 0.1), penalty=0.0, k_reg=0)
    sizes = [sets.of(fresh).sum(axis=1).mean() for sets in (now, then)]
    assert now.of(fresh)[np.arange(len(truth)), truth].mean() >= 0.9 - 0.02
    assert sizes[0] < 0.6 * sizes[1]


def draw_many_classes(rng, n, classes=50):
    """A model whose long tail of small probabilities is noise: the right label is nearly always among the first few."""
    said = rng.dirichlet(np.r_[20, 10, 5, np.full(classes - 3, 0.4)], size=n)
    ranks = rng.choice(classes, size=n, p=np.r_[0.6, 0.25, 0.12, np.full(classes - 3, 0.03 / (classes - 3))])
    return said, np.argsort(-said, axis=1, kind="stable")[np.arange(n), ranks]


@pytest.mark.parametrize(
    ("penalty", "k_reg", "scores"),
    [
        (0.1, 1, [0.5, 0.9, 1.2]),
        (0.1, 0, [0.6, 1.0, 1.3]),
        (0.1, 2, [0.5, 0.8, 1.1]),
        (0.1, 3, [0.5, 0.8, 1.0]),
    ],
)
def test_every_rank_beyond_the_first_few_costs(penalty, k_reg, scores):
    np.testing.assert_allclose(
        CumulativeProbability(penalty=penalty, k_reg=k_reg, own_share=1.0).of(np.array([[0.5, 0.3, 0.2]])), [scores]
    )


@pytest.mark.parametrize("settings", [{"penalty": 0.0}, {"k_reg": 50}])
def test_without_a_penalty_to_pay_they_are_the_adaptive_sets(settings):
    rng = np.random.default_rng(0)
    probabilities, truth = draw_many_classes(rng, 200)
    regularised = RegularisedSets(alpha=0.1, **settings).fit(probabilities, truth)
    adaptive = AdaptiveSets(alpha=0.1).fit(probabilities, truth)
    assert regularised.qhat == adaptive.qhat
    np.testing.assert_array_equal(regularised.of(probabilities), adaptive.of(probabilities))


def test_the_long_tail_is_cut_at_no_loss_of_coverage():
    rng = np.random.default_rng(1)
    fresh, truth = draw_many_classes(rng, 2000)
    recipes = {"adaptive": AdaptiveSets(alpha=0.05), "cut": RegularisedSets(alpha=0.05, penalty=0.1, k_reg=3)}
    sizes, coverage = {}, {}
    for name, recipe in recipes.items():
        members = [recipe.fit(*draw_many_classes(rng, 300)).of(fresh) for _ in range(20)]
        sizes[name] = np.mean([m.sum(axis=1).mean() for m in members])
        coverage[name] = np.mean([m[np.arange(len(truth)), truth].mean() for m in members])
    assert sizes["cut"] < 0.9 * sizes["adaptive"]
    assert min(coverage.values()) > 0.945


@pytest.mark.parametrize("settings", [{"penalty": -0.1}, {"penalty": np.inf}, {"k_reg": -1}, {"k_reg": 1.0}])
def test_settings_that_make_no_sense(settings):
    with pytest.raises(InvalidInput):
        RegularisedSets(**settings)


OF_THREE = [[0.8, 0.2, 0.0], [0.6, 0.4, 0.0], [0.5, 0.5, 0.0], [0.3, 0.7, 0.0]]


def test_each_label_has_its_own_quantile_and_too_few_rows_put_it_into_every_set():
    sets = ClassConditionalSets(alpha=0.34).fit(OF_THREE, [0, 0, 1, 1])  # both ranks are the last of two
    np.testing.assert_allclose(sets.qhats, [0.4, 0.5, np.inf])
    assert sets.of(np.array([[0.6, 0.4, 0.0], [0.5, 0.5, 0.0]])).tolist() == [[True, False, True], [False, True, True]]
    assert sets.promise_in_words == (
        "at 34% error for each label (that takes 2 labelled rows of each; 1 of 3 have fewer)"
    )


def test_enough_rows_of_each_are_not_mentioned():
    sets = ClassConditionalSets(alpha=0.5).fit(np.tile(np.eye(3), (1, 1)), [0, 1, 2])
    assert sets.promise_in_words == "at 50% error for each label"


@pytest.mark.parametrize("probabilities", [np.full((2, 2), 0.5), np.full(3, 1 / 3)])
def test_other_labels_than_were_fitted_are_refused(probabilities):
    sets = ClassConditionalSets(alpha=0.5).fit(OF_THREE, [0, 0, 1, 1])
    with pytest.raises(InvalidInput, match="for 3 labels"):
        sets.of(probabilities)


def draw_groups(rng, n):
    """Of the inputs from the hard place the model knows less than it says."""
    groups = np.where(rng.random(n) < 0.2, "hard", "easy")
    said = rng.uniform(0.5, 1, size=n)
    right = rng.random(n) < np.where(groups == "hard", 0.55, said)
    return np.column_stack([said, 1 - said]), np.where(right, 0, 1), groups.tolist()


@pytest.mark.slow
def test_no_group_pays_for_another():
    rng = np.random.default_rng(0)
    probabilities, truth, groups = draw_groups(rng, 20_000)
    hard = np.array(groups) == "hard"
    coverage = {"one for all": [], "hard": [], "easy": []}
    for _ in range(200):
        rows = draw_groups(rng, 400)
        everywhere = SplitSets(alpha=0.1).fit(*rows[:2]).of(probabilities)
        coverage["one for all"].append(everywhere[hard, truth[hard]].mean())
        each = GroupConditionalSets(alpha=0.1).fit(*rows).of(probabilities, groups)
        coverage["hard"].append(each[hard, truth[hard]].mean())
        coverage["easy"].append(each[~hard, truth[~hard]].mean())
    assert np.mean(coverage["hard"]) >= 0.9 - 0.01
    assert np.mean(coverage["easy"]) >= 0.9 - 0.01
    assert np.mean(coverage["one for all"]) < 0.85  # else there would be nothing to see


def test_nothing_is_ruled_out_in_a_group_that_was_not_fitted():
    sets = GroupConditionalSets(alpha=0.2).fit([[0.9, 0.1]] * 20, [0] * 20, ["here"] * 20)
    probabilities = np.array([[0.95, 0.05]] * 3)
    assert sets.of(probabilities, ["here", "there", None]).tolist() == [[True, False], [True, True], [True, True]]
    assert sets.of(probabilities).all()


def test_rows_without_a_group_are_a_group():
    sets = GroupConditionalSets(alpha=0.2).fit([[0.9, 0.1]] * 20, [0] * 20, ["here", None] * 10)
    assert sets.of(np.array([[0.95, 0.05]])).tolist() == [[True, False]]


def test_scarce_groups_are_told():
    sets = GroupConditionalSets(alpha=0.1).fit([[0.9, 0.1]] * 20, [0] * 20, ["a"] * 15 + ["b"] * 5)
    assert sets.promise_in_words == "at 10% error in each group (that takes 9 labelled rows of each; 1 of 2 have fewer)"
    assert sets.promise.feasible
    assert not GroupConditionalSets(alpha=0.01).fit([[0.9, 0.1]], [0], ["a"]).promise.feasible


@pytest.mark.parametrize("groups", [None, [None, None]])
def test_groups_must_be_named(groups):
    with pytest.raises(InvalidInput, match="no labelled row names its group"):
        GroupConditionalSets(alpha=0.1).fit([[0.9, 0.1]] * 2, [0] * 2, groups)


@pytest.mark.parametrize(
    ("kind", "score", "table", "stored"),
    [
        ("split", "ProbabilityComplement", "OneQuantile", "alpha qhat n keep_predicted ranked delta"),
        ("class_conditional", "ProbabilityComplement", "QuantilePerLabel", "alpha qhats n keep_predicted delta"),
        (
            "group_conditional",
            "ProbabilityComplement",
            "QuantilePerGroup",
            "alpha groups qhats n keep_predicted counts delta",
        ),
        ("adaptive", "CumulativeProbability", "OneQuantile", "alpha qhat penalty k_reg n own_share delta"),
        ("regularised", "CumulativeProbability", "OneQuantile", "alpha qhat penalty k_reg n own_share delta"),
        ("sampled", "UnnamedShare", "OneQuantile", "alpha qhat n keep_predicted source delta"),
    ],
)
def test_each_kind_is_a_score_and_a_table_and_artifacts_hold_what_they_always_held(kind, score, table, stored):
    rows = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]] * 10)
    sets = SETS[kind](alpha=0.2).fit(rows, rows.argmax(axis=1), ["a", "b", "a"] * 10)
    assert (type(sets.score).__name__, type(sets.quantiles).__name__) == (score, table)
    assert [field.name for field in fields(sets)] == stored.split()
    assert sets.delta is None  # as in artifacts of before, which do not hold it
    assert sets.promise.feasible
    assert sets.of(rows, ["a", "b", "a"] * 10)[np.arange(30), rows.argmax(axis=1)].all()
