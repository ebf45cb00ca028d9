"""What the configurable sets promise, held against inputs whose true probabilities are known."""

from functools import cache

import numpy as np
import pytest

from demur.policies.label_sets import SETS, shown
from demur.uncertainty.checks import InvalidInput

ALPHA, CLASSES, DRAWS = 0.1, 6, 150


def draw(rng, n):
    """What an over-confident model says [n, C], the true probabilities [n, C], and a label [n] drawn from these.

    Half of the inputs are easy and half are hard; the first label is 20 times as frequent as the last.
    """
    logits = rng.normal(size=(n, CLASSES)) * np.where(rng.random(n) < 0.5, 0.7, 2.5)[:, None]
    chances = np.exp(logits + np.linspace(1.5, -1.5, CLASSES))
    chances /= chances.sum(axis=1, keepdims=True)
    said = chances**2 / (chances**2).sum(axis=1, keepdims=True)
    return said, chances, (chances.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


@cache
def outcome(kind, n):
    """For each draw: coverage, mean size [DRAWS], and coverage of each label [DRAWS, C] on 4,000 inputs."""
    rng = np.random.default_rng(0)
    said, chances, _ = draw(rng, 4000)
    coverage, size, of_labels = [], [], []
    for _ in range(DRAWS):
        probabilities, _, truth = draw(rng, n)
        members = SETS[kind](alpha=ALPHA).fit(probabilities, truth, ["a"] * n).of(said, ["a"] * len(said))
        caught = members * chances  # the chance of each label, where it is in the set
        coverage.append(caught.sum(axis=1).mean())
        size.append(members.sum(axis=1).mean())
        of_labels.append(caught.sum(axis=0) / chances.sum(axis=0))
    return np.array(coverage), np.array(size), np.array(of_labels)


def slack(values):
    """Three standard errors over the draws, and what 4,000 inputs differ from all inputs."""
    return 3 * values.std(axis=0) / np.sqrt(DRAWS) + 0.005


@cache
def oracle(kind):
    """The smallest mean size with the coverage that a kind promises, for who knows the true probabilities."""
    _, chances, _ = draw(np.random.default_rng(1), 20_000)
    if kind == "split":  # over all inputs: take the likeliest pairs of input and label until they make 1 - alpha
        pairs = np.sort(chances.ravel())[::-1].cumsum() / len(chances)
        return (np.searchsorted(pairs, 1 - ALPHA) + 1) / len(chances)
    if kind == "class_conditional":  # the same for each label
        columns = np.sort(chances, axis=0)[::-1].cumsum(axis=0) / chances.sum(axis=0)
        return sum(np.searchsorted(column, 1 - ALPHA) + 1 for column in columns.T) / len(chances)
    return ((-np.sort(-chances, axis=1)).cumsum(axis=1) < 1 - ALPHA).sum(axis=1).mean() + 1  # the same for each input


@pytest.mark.slow
@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("n", [30, 400])
def test_the_right_label_is_missed_no_more_often_than_promised(kind, n):
    coverage, _, _ = outcome(kind, n)
    assert coverage.mean() >= 1 - ALPHA - slack(coverage)
    if kind in ("split", "group_conditional"):  # nothing is drawn to make the others exact
        assert coverage.mean() <= 1 - ALPHA + 1 / (n + 1) + slack(coverage)


def test_with_a_quantile_for_each_label_none_is_missed_more_often_than_another():
    _, _, of_labels = outcome("class_conditional", 400)
    assert (of_labels.mean(axis=0) >= 1 - ALPHA - slack(of_labels)).all()
    _, _, of_labels = outcome("split", 400)
    assert of_labels.mean(axis=0).min() < 0.75  # one for all does not do that


@pytest.mark.parametrize(
    ("kind", "n", "factor"),
    [("split", 400, 1.05), ("adaptive", 400, 1.0), ("regularised", 400, 1.0), ("class_conditional", 1500, 1.15)],
)
def test_the_sets_are_not_much_larger_than_those_of_an_oracle(kind, n, factor):
    _, size, _ = outcome(kind, n)
    assert size.mean() <= factor * oracle(kind)


def test_adaptive_sets_miss_hard_and_easy_inputs_more_alike():
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(8000, 12)) * np.where(rng.random(8000) < 0.8, 6, 0.5)[:, None]
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = (chances.cumsum(axis=1) > rng.random((8000, 1))).argmax(axis=1)
    hard = chances.max(axis=1) < 0.4
    missed = {}
    for kind in ("split", "adaptive"):
        caught = (SETS[kind](alpha=ALPHA).fit(chances, truth).of(chances) * chances).sum(axis=1)
        missed[kind] = 1 - caught[hard].mean(), 1 - caught[~hard].mean()
    assert missed["split"][0] > 3 * ALPHA  # paid for by the easy ones
    assert missed["adaptive"][0] < 2 * ALPHA
    assert missed["adaptive"][1] < ALPHA


@pytest.mark.parametrize("kind", SETS)
def test_a_row_has_the_same_set_alone_and_in_company_and_nan_has_none(kind):
    rng = np.random.default_rng(0)
    probabilities, _, truth = draw(rng, 60)
    groups = ["a", "b"] * 30
    sets = SETS[kind](alpha=0.3).fit(probabilities, truth, groups)
    probabilities[5] = np.nan
    members = sets.of(probabilities, groups)
    assert not members[5].any()
    for i in range(60):
        assert (sets.of(probabilities[i : i + 1], groups[i : i + 1])[0] == members[i]).all()


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize(
    "change",
    [
        {"probabilities": [[0.5, 0.6], [0.5, 0.5]]},
        {"probabilities": [[0.5, np.nan], [0.5, 0.5]]},
        {"probabilities": []},
        {"classes": [0]},
        {"classes": [0, 2]},
        {"classes": [0, -1]},
        {"classes": [0.0, 1.0]},
        {"classes": [[0, 1], [1, 0]]},
    ],
)
def test_bad_input(kind, change):
    good = {"probabilities": [[0.5, 0.5], [0.9, 0.1]], "classes": [0, 1]}
    with pytest.raises(InvalidInput):
        SETS[kind](alpha=0.1).fit(*({**good, **change}).values(), ["a", "b"])


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("alpha", [0, 1, -0.1, float("nan"), "0.1", True])
def test_alpha_lies_strictly_between_0_and_1(kind, alpha):
    with pytest.raises(InvalidInput, match="alpha"):
        SETS[kind](alpha=alpha)


@pytest.mark.parametrize("keep", [True, False])
def test_the_predicted_label_is_shown_where_that_is_wanted(keep):
    sets = SETS["split"](alpha=0.1, keep_predicted=keep).fit([[0.9, 0.1]] * 20, [0] * 20)
    members, predicted = np.array([[False, True], [False, False]]), np.array([[True, False], [True, False]])
    assert shown(sets, members, predicted).tolist() == [[keep, True], [keep, False]]
