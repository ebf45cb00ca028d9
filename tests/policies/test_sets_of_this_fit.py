"""Sets with a `delta` keep their promise in each fit, except with that probability; one fit in two does not without."""

import numpy as np
import pytest
from scipy.stats import binom

from demur.policies.conformal_sets import (
    AdaptiveSets,
    ClassConditionalSets,
    GroupConditionalSets,
    RegularisedSets,
    SampleFrequencySets,
    SplitSets,
)
from demur.policies.moving_sets import FixedSets, at_level
from demur.uncertainty.checks import Array, InvalidInput


def draw(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return probabilities [n, 4] that are true, and labels drawn from them."""
    p = rng.dirichlet(np.ones(4), n)
    return p, (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=3)


def broken(recipe: SplitSets | AdaptiveSets | ClassConditionalSets, *, fits: int, n: int) -> int:
    """Return in how many fits the sets, or those of any label, miss more than promised of very many later rows."""
    rng = np.random.default_rng(5)
    later, right = draw(rng, 60_000)
    count = 0
    for _ in range(fits):
        missed = ~recipe.fit(*draw(rng, n)).of(later)[np.arange(len(right)), right]
        of_each = [missed[right == label].mean() for label in range(4)]
        worst = max(of_each) if isinstance(recipe, ClassConditionalSets) else missed.mean()
        count += worst > recipe.alpha + 0.004  # the noise of the later rows
    return count


@pytest.mark.parametrize("delta", [None, 0.1])
def test_one_fit_in_ten_misses_more_with_a_delta_and_one_in_two_without(delta: float | None) -> None:
    fits = 150
    found = broken(SplitSets(alpha=0.1, delta=delta), fits=fits, n=100)
    if delta is None:
        assert found > 0.25 * fits
    else:
        assert found <= binom.ppf(0.999, fits, delta)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "recipe",
    [
        SplitSets(alpha=0.05, delta=0.1),
        AdaptiveSets(alpha=0.1, delta=0.1),
        RegularisedSets(alpha=0.1, delta=0.1),
        ClassConditionalSets(alpha=0.1, delta=0.1),
    ],
    ids=lambda recipe: type(recipe).__name__,
)
def test_the_promise_is_broken_in_no_more_fits_than_stated(recipe: SplitSets | AdaptiveSets) -> None:
    fits = 300
    assert broken(recipe, fits=fits, n=300) <= binom.ppf(0.999, fits, 0.1)


def test_each_kind_says_what_it_promises_and_takes_more_rows_for_it() -> None:
    rng = np.random.default_rng(0)
    p, right = draw(rng, 400)
    groups = ["a", "b"] * 200
    for kind in (SplitSets, AdaptiveSets, RegularisedSets, ClassConditionalSets, GroupConditionalSets):
        on_average, of_this_fit = (kind(alpha=0.1, delta=delta).fit(p, right, groups) for delta in (None, 0.1))
        assert "on average" in on_average.promise.statement
        assert "except with probability 10%" in of_this_fit.promise.statement
        assert of_this_fit.of(p, groups).sum() > on_average.of(p, groups).sum()
    sampled = SampleFrequencySets(alpha=0.1, delta=0.1).fit(p, right)
    assert sampled.promise.delta == 0.1
    assert not SplitSets(alpha=0.1, delta=0.1).fit(p[:21], right[:21]).promise.feasible
    short = SplitSets(alpha=0.1, delta=0.1).fit(p[:21], right[:21])
    assert "22 labelled rows" in short.promise_in_words
    assert SplitSets(alpha=0.1, delta=0.1).fit(p[:22], right[:22]).promise.feasible


def test_groups_and_labels_share_the_delta() -> None:
    """The sentence speaks of all of them together, so each has its part of the probability."""
    rng = np.random.default_rng(1)
    p, right = draw(rng, 2_000)
    groups = [f"g{row % 10}" for row in range(2_000)]
    sets = GroupConditionalSets(alpha=0.1, delta=0.1).fit(p, right, groups)
    assert sets.promise.n_of == {f"g{k}": 200 for k in range(10)}
    alone = SplitSets(alpha=0.1, delta=0.01).fit(p[::10], right[::10])
    assert sets.qhats[0] == alone.qhat


@pytest.mark.parametrize("delta", [0.0, 1.0, -1, "x", True])
def test_a_delta_is_a_probability(delta: object) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        SplitSets(alpha=0.1, delta=delta)


def test_sets_that_move_promise_nothing_of_one_fit() -> None:
    fitted = SplitSets(alpha=0.1, delta=0.1, keep_predicted=False).fit(*draw(np.random.default_rng(2), 100))

    class SetsSelector:
        sets = fitted

    with pytest.raises(FixedSets, match="one fit"):
        at_level(SetsSelector(), 0.2)
