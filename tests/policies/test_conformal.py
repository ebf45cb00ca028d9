import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.policies.conformal import conformal_quantile, conformal_sets, labels_needed, order_statistic
from demur.policies.conformal_sets import LabelSets, SplitSets


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_the_fitted_scores_are_covered_and_the_finite_rank_is_not_below_the_plain_one(scores, alpha):
    finite = conformal_quantile(scores, alpha)
    assert np.mean(np.array(scores) <= finite) >= 1 - alpha - 1e-9
    assert finite >= conformal_quantile(scores, alpha, method="plain")


def test_a_row_that_no_label_fits_has_an_empty_set():
    sets = SplitSets(alpha=0.1).fit(np.tile([0.99, 0.01], (200, 1)), np.zeros(200, dtype=int))
    probabilities = np.array([[0.6, 0.4], [0.995, 0.005], [np.nan, np.nan]])
    assert sets.of(probabilities).tolist() == [[False, False], [True, False], [False, False]]


def test_too_few_rows_give_full_sets_and_how_many_would_do_is_said():
    sets = SplitSets(alpha=0.01).fit(np.array([[0.9, 0.1]] * 5), np.zeros(5, dtype=int))
    assert sets.of(np.array([[0.99, 0.01]])).all()
    assert sets.promise_in_words == "at 1% error (that takes 99 labelled rows)"
    assert LabelSets(alpha=0.07, qhat=0.5).promise_in_words == "at 7% error"


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.07, 0.1, 0.3, 1 / 3, 0.5, 0.9])
def test_no_smaller_number_of_labels_would_do(alpha):
    needed = labels_needed(alpha)
    assert np.isfinite(conformal_quantile(np.zeros(needed), alpha))
    assert needed == 1 or np.isposinf(conformal_quantile(np.zeros(needed - 1), alpha))


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=10),
    st.floats(0, 1) | st.sampled_from([-np.inf, np.inf]),
    st.floats(0, 1) | st.sampled_from([-np.inf, np.inf]),
)
def test_sets_grow_with_the_quantile(scores, a, b):
    smaller, larger = (conformal_sets(scores, qhat) for qhat in sorted([a, b]))
    assert all(set(one) <= set(other) for one, other in zip(smaller, larger, strict=True))


@pytest.mark.parametrize(("alpha", "n"), [(0.1, 9), (0.1, 37), (0.25, 40), (0.5, 3)])
def test_the_coverage_is_the_rank_over_n_plus_1(alpha, n):
    """Uniform scores: the coverage of a draw is its quantile itself."""
    rng = np.random.default_rng(0)
    covered = [conformal_quantile(rng.random(n), alpha) for _ in range(4000)]
    slack = 4 * np.std(covered) / np.sqrt(4000)
    assert 1 - alpha - slack <= np.mean(covered) <= 1 - alpha + 1 / (n + 1) + slack


@pytest.mark.parametrize(("rank", "value"), [(-1, -np.inf), (0, -np.inf), (1, 3.0), (2, 5.0), (3, np.inf)])
def test_beyond_the_ends_there_is_only_infinity(rank, value):
    assert order_statistic([3.0, 5.0], rank) == value


def test_a_rank_that_rounds_to_nothing_is_not_the_last():
    assert conformal_quantile([0.1, 0.2], 1 - 1e-12) == -np.inf


@pytest.mark.parametrize("qhat", [float("nan"), None, "0.5"])
def test_a_quantile_is_a_number(qhat):
    with pytest.raises(ValueError, match="qhat"):
        conformal_sets([[0.1]], qhat)


@pytest.mark.parametrize("alpha", [0, 1, -1, "0.1", None])
def test_alpha_lies_strictly_between_0_and_1(alpha):
    with pytest.raises(ValueError, match="alpha"):
        conformal_quantile([0.1], alpha)
