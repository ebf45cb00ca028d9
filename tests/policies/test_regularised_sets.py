import numpy as np
import pytest

from demur.policies.adaptive_sets import AdaptiveSets, cumulative_scores
from demur.policies.regularised_sets import RegularisedSets
from demur.uncertainty.checks import InvalidInput


def draw(rng, n, classes=50):
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
    np.testing.assert_allclose(cumulative_scores(np.array([[0.5, 0.3, 0.2]]), penalty, k_reg, 1.0), [scores])


@pytest.mark.parametrize("settings", [{"penalty": 0.0}, {"k_reg": 50}])
def test_without_a_penalty_to_pay_they_are_the_adaptive_sets(settings):
    rng = np.random.default_rng(0)
    probabilities, truth = draw(rng, 200)
    regularised = RegularisedSets(alpha=0.1, **settings).fit(probabilities, truth)
    adaptive = AdaptiveSets(alpha=0.1).fit(probabilities, truth)
    assert regularised.qhat == adaptive.qhat
    np.testing.assert_array_equal(regularised.of(probabilities), adaptive.of(probabilities))


def test_the_long_tail_is_cut_at_no_loss_of_coverage():
    rng = np.random.default_rng(1)
    fresh, truth = draw(rng, 2000)
    recipes = {"adaptive": AdaptiveSets(alpha=0.05), "cut": RegularisedSets(alpha=0.05, penalty=0.1, k_reg=3)}
    sizes, coverage = {}, {}
    for name, recipe in recipes.items():
        members = [recipe.fit(*draw(rng, 300)).of(fresh) for _ in range(20)]
        sizes[name] = np.mean([m.sum(axis=1).mean() for m in members])
        coverage[name] = np.mean([m[np.arange(len(truth)), truth].mean() for m in members])
    assert sizes["cut"] < 0.9 * sizes["adaptive"]
    assert min(coverage.values()) > 0.945


@pytest.mark.parametrize("settings", [{"penalty": -0.1}, {"penalty": np.inf}, {"k_reg": -1}, {"k_reg": 1.0}])
def test_settings_that_make_no_sense(settings):
    with pytest.raises(InvalidInput):
        RegularisedSets(**settings)
