import numpy as np
import pytest

from demur.policies.closed_labels import ClosedLabelLimits, ClosedLabels
from demur.policies.hierarchy import tree_over
from demur.policies.label_thresholds import GivenLabelLimit, MaxF1LabelLimits
from demur.policies.missed_labels import MissedLabelLimit, shares_missed
from demur.policies.prediction import learns

LABELS, TREE = tree_over(
    ["A", "A01", "A0101", "A0102", "B", "B01"],
    {"A01": ["A"], "A0101": ["A01"], "A0102": ["A01", "B"], "B01": ["B"]},
)


def draw(rng, n):
    """Closed probabilities and truths; a label holds more seldom than its probability says."""
    logits = rng.normal(-1.5, 1.5, size=(n, len(LABELS)))
    held = rng.random((n, len(LABELS))) < 1 / (1 + np.exp(-0.7 * logits))
    return 1 / (1 + np.exp(-TREE.over_outputs(logits))), TREE.closed(held)


def test_a_child_that_reaches_its_own_limit_brings_its_ancestors():
    recipe = ClosedLabelLimits(limits=GivenLabelLimit(limit=0.5, labels={3: 0.2}), tree=TREE)
    fitted = recipe.fit(np.zeros((1, 6)), None)
    assert isinstance(fitted, ClosedLabels)
    assert fitted.of(np.array([[0.3, 0.3, 0.1, 0.3, 0.3, 0.0]])).tolist() == [[True, True, False, True, True, False]]
    assert fitted.limits.of(np.array([[0.3, 0.3, 0.1, 0.3, 0.3, 0.0]])).sum() == 1


@pytest.mark.parametrize("limits", [MaxF1LabelLimits(), MissedLabelLimit(alpha=0.2), GivenLabelLimit()])
def test_what_is_predicted_is_closed_and_no_more_is_missed(limits):
    fitted = ClosedLabelLimits(limits=limits, tree=TREE).fit(*draw(np.random.default_rng(0), 30))
    p, _ = draw(np.random.default_rng(1), 500)
    predicted = fitted.of(p)
    np.testing.assert_array_equal(TREE.closed(predicted), predicted)
    assert (fitted.limits.of(p) <= predicted).all()
    if not isinstance(limits, MaxF1LabelLimits):
        np.testing.assert_array_equal(fitted.limits.of(p), predicted)  # one limit on closed numbers breaks no tree


def test_limits_of_their_own_would_break_the_tree():
    _, tree = tree_over(["A", "A01"], {"A01": ["A"]})
    p = np.array([[0.9, 0.0]] * 3 + [[0.5, 0.0]] * 5 + [[0.3, 0.3]])
    fitted = ClosedLabelLimits(limits=MaxF1LabelLimits(), tree=tree).fit(p, [[1, 0]] * 3 + [[0, 0]] * 5 + [[1, 1]])
    assert fitted.limits.of(p[-1:]).tolist() == [[False, True]]
    assert fitted.of(p[-1:]).tolist() == [[True, True]]
    assert fitted.promise is None


@pytest.mark.slow
@pytest.mark.parametrize("share_of", ["labels", "rows"])
def test_the_promise_of_few_missed_labels_holds_under_a_tree_and_is_not_wasted(share_of):
    rng = np.random.default_rng(0)
    p, truth = draw(rng, 20_000)
    shares = []
    for _ in range(100):
        recipe = ClosedLabelLimits(limits=MissedLabelLimit(alpha=0.1, share_of=share_of), tree=TREE)
        fitted = recipe.fit(*draw(rng, 600))
        missed = truth & ~fitted.of(p)
        by_row = missed.sum(axis=1) / np.maximum(1, truth.sum(axis=1))
        shares.append(missed.sum() / truth.sum() if share_of == "labels" else by_row.mean())
    assert by_row.mean() == pytest.approx(shares_missed(p, truth, fitted.limits.limits[:1]).mean())
    assert fitted.promise == fitted.limits.promise
    assert fitted.promise.target == 0.1
    assert 0.08 <= np.mean(shares) <= 0.1 + 0.003


def test_what_hangs_on_labels_is_known_under_a_tree():
    assert not learns(ClosedLabelLimits(limits=GivenLabelLimit(), tree=TREE))
    assert learns(ClosedLabelLimits(limits=MaxF1LabelLimits(), tree=TREE))
