import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.label_thresholds import GivenLabelLimit, MaxF1LabelLimits, thresholds_max_f1
from demur.uncertainty.checks import InvalidInput


def best_by_trying(scores, present, default):
    """The definition, word for word."""
    if not present.any():
        return default
    best = (-1.0, -1.0)
    for t in np.unique(scores):
        predicted = scores >= t
        best = max(best, (2 * (predicted & present).sum() / (predicted.sum() + present.sum()), t))
    return best[1]


@settings(deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(0, 6), st.booleans()] * 3), min_size=1, max_size=25),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_each_limit_has_the_largest_f1_and_of_equals_is_the_largest(rows, default):
    table = np.array(rows)
    scores, present = table[:, ::2] / 6, table[:, 1::2].astype(bool)
    limits = thresholds_max_f1(scores, present, default=default)
    assert limits.tolist() == [best_by_trying(scores[:, j], present[:, j], default) for j in range(3)]


def test_blocks_are_put_together_in_order():
    rng = np.random.default_rng(0)
    scores, present = rng.random((40, 150)).astype(np.float32), rng.random((40, 150)) < 0.1
    limits = thresholds_max_f1(scores, present)
    assert limits.tolist() == [best_by_trying(scores[:, j], present[:, j], 0.5) for j in range(150)]


@pytest.mark.parametrize(
    ("probs", "targets", "default"),
    [
        ([], [], 0.5),
        ([0.5], [1], 0.5),
        ([[0.5, 0.4]], [[1]], 0.5),
        ([[0.5], [0.4, 0.3]], [[1], [0]], 0.5),
        ([[1.5]], [[1]], 0.5),
        ([[float("nan")]], [[1]], 0.5),
        ([[0.5]], [[2]], 0.5),
        ([[0.5]], [[1]], 1.5),
        ([[0.5]], [[1]], None),
        ([[0.5] * 70], [[0] * 69 + [2]], 0.5),  # in the last block
    ],
)
def test_bad_input(probs, targets, default):
    with pytest.raises(InvalidInput):
        thresholds_max_f1(probs, targets, default=default)


def test_the_limit_itself_is_predicted_and_nan_is_not():
    fitted = MaxF1LabelLimits(default=0.25).fit([[0.9, 0.1], [0.6, 0.2]], [[1, 0], [0, 0]])
    assert fitted.limits.tolist() == [0.9, 0.25]
    assert fitted.of(np.array([[0.9, 0.25], [0.89, np.nan]])).tolist() == [[True, True], [False, False]]


def test_one_limit_for_all():
    fitted = GivenLabelLimit(limit=0.3).fit(np.zeros((2, 3)), np.zeros((2, 3)))
    assert fitted.of(np.array([[0.3, 0.29, 1.0]])).tolist() == [[True, False, True]]


def test_a_label_may_have_a_limit_of_its_own():
    fitted = GivenLabelLimit(limit=0.3, labels={2: 0.9, 0: 0.0}).fit(np.zeros((2, 3)), None)
    assert fitted.limits.tolist() == [0.0, 0.3, 0.9]
    for labels in ({3: 0.5}, {-1: 0.5}):
        with pytest.raises(InvalidInput, match="there are 3 labels"):
            GivenLabelLimit(labels=labels).fit(np.zeros((2, 3)), None)
    with pytest.raises(InvalidInput, match="the limit of label 1"):
        GivenLabelLimit(labels={1: 1.5})


@pytest.mark.parametrize("recipe", [GivenLabelLimit, lambda limit: MaxF1LabelLimits(default=limit)])
@pytest.mark.parametrize("limit", [-0.1, 1.1, float("nan"), "0.5"])
def test_a_limit_is_a_probability(recipe, limit):
    with pytest.raises(InvalidInput):
        recipe(limit=limit)


@pytest.mark.parametrize("shape", [(2,), (1, 3), (1, 1)])
def test_other_labels_are_refused(shape):
    with pytest.raises(InvalidInput, match="limits"):
        GivenLabelLimit().fit(np.zeros((1, 2)), np.zeros((1, 2))).of(np.zeros(shape))
