import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.policies.adaptive_sets import AdaptiveSets, CumulativeSets, cumulative_scores
from demur.policies.conformal import conformal_quantile

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
    np.testing.assert_allclose(cumulative_scores(np.array([row]), 0, 0, share), [scores], atol=1e-15)


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
    scores = cumulative_scores(rows, 0.0, 0, 1.0)[np.arange(len(rows)), right]
    then = CumulativeSets(alpha=0.1, qhat=conformal_quantile(scores, 0.1), penalty=0.0, k_reg=0)
    sizes = [sets.of(fresh).sum(axis=1).mean() for sets in (now, then)]
    assert now.of(fresh)[np.arange(len(truth)), truth].mean() >= 0.9 - 0.02
    assert sizes[0] < 0.6 * sizes[1]
