import numpy as np
import pytest

from demur.policies.conformal import SplitSets
from demur.policies.group_conditional_sets import GroupConditionalSets
from demur.uncertainty.checks import InvalidInput


def draw(rng, n):
    """Of the inputs from the hard place the model knows less than it says."""
    groups = np.where(rng.random(n) < 0.2, "hard", "easy")
    said = rng.uniform(0.5, 1, size=n)
    right = rng.random(n) < np.where(groups == "hard", 0.55, said)
    return np.column_stack([said, 1 - said]), np.where(right, 0, 1), groups.tolist()


@pytest.mark.slow
def test_no_group_pays_for_another():
    rng = np.random.default_rng(0)
    probabilities, truth, groups = draw(rng, 20_000)
    hard = np.array(groups) == "hard"
    coverage = {"one for all": [], "hard": [], "easy": []}
    for _ in range(200):
        rows = draw(rng, 400)
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
