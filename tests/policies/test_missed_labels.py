import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.label_share import label_share_control, missed_labels
from demur.policies.missed_labels import LIMITS, MissedLabelLimit, shares_missed
from demur.uncertainty.checks import InvalidInput


def draw(rng, n, labels=6):
    logits = rng.normal(-1, 1.5, size=(n, labels))
    return 1 / (1 + np.exp(-logits)), rng.random((n, labels)) < 1 / (1 + np.exp(-0.7 * logits))


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_shares_are_counted_as_they_are_defined(seed):
    rng = np.random.default_rng(seed)
    p, truth = rng.integers(0, 6, size=(7, 4)) / 5, rng.random((7, 4)) < 0.5
    limits = np.array([1.0, 0.8, 0.6, 0.5, 0.2, 0.0])
    slow = [
        [np.mean([p[i, j] < t for j in range(4) if truth[i, j]]) if truth[i].any() else 0.0 for t in limits]
        for i in range(7)
    ]
    np.testing.assert_allclose(shares_missed(p, truth, limits), slow)


SHARES = {
    "labels": lambda truth, missed: missed.sum() / truth.sum(),
    "rows": lambda truth, missed: (missed.sum(axis=1) / np.maximum(truth.sum(axis=1), 1)).mean(),
}
"""The two shares, in the words of METHODS 10.4."""


def draw_with_empty_rows(rng, n, labels=6):
    """Draw probabilities and labels; a little more than half of the rows have no label, whatever the model says."""
    p, truth = draw(rng, n, labels)
    return p, truth & (rng.random((n, 1)) < 0.45)


@pytest.mark.slow
@pytest.mark.parametrize("share_of", ["labels", "rows"])
@pytest.mark.parametrize("drawn", [draw, draw_with_empty_rows])
def test_each_promise_holds_on_average_and_is_not_wasted(share_of, drawn):
    rng = np.random.default_rng(0)
    p, truth = drawn(rng, 20_000)
    shares = []
    for _ in range(100):
        fitted = MissedLabelLimit(alpha=0.1, share_of=share_of).fit(*drawn(rng, 1_000))
        shares.append(SHARES[share_of](truth, truth & ~fitted.of(p)))
    assert np.mean(shares) <= 0.1 + 3 * np.std(shares) / 10
    assert np.mean(shares) >= 0.08


@pytest.mark.slow
def test_the_mean_over_rows_is_another_promise_where_many_rows_have_no_label():
    rng = np.random.default_rng(0)
    fitted = MissedLabelLimit(alpha=0.1, share_of="rows").fit(*draw_with_empty_rows(rng, 5_000))
    p, truth = draw_with_empty_rows(rng, 20_000)
    assert SHARES["rows"](truth, truth & ~fitted.of(p)) <= 0.105
    assert SHARES["labels"](truth, truth & ~fitted.of(p)) > 0.2


@pytest.mark.parametrize("max_labels", [None, 3])
def test_the_limit_is_that_of_the_definition(max_labels):
    rng = np.random.default_rng(2)
    p, truth = draw(rng, 400)
    truth[truth.sum(axis=1) > 3] = False
    fitted = MissedLabelLimit(alpha=0.1, max_labels=max_labels).fit(p, truth)
    counts = missed_labels(1 - p, truth, 1 - LIMITS)
    slow = label_share_control(counts.missed, counts.held, 1 - LIMITS, 0.1, max_labels or 6)
    assert fitted.limits[0] == pytest.approx(1 - slow.limit)
    assert slow.feasible


@pytest.mark.parametrize(
    ("share_of", "max_labels", "statement"),
    [
        (
            "labels",
            None,
            "at most 20% of all labels that hold are not predicted, on average, as long as later traffic is drawn like"
            " the calibration data",
        ),
        (
            "labels",
            6,
            "at most 20% of all labels that hold are not predicted, on average, as long as later traffic is drawn like"
            " the calibration data and no input has more than 6 labels",
        ),
        (
            "rows",
            None,
            "at most 20% of a row's labels are not predicted (a row without labels misses nothing), on average, as long"
            " as later traffic is drawn like the calibration data",
        ),
    ],
)
def test_all_labels_share_a_limit_and_the_sentence_names_the_share(share_of, max_labels, statement):
    p, truth = draw(np.random.default_rng(1), 500)
    fitted = MissedLabelLimit(alpha=0.2, share_of=share_of, max_labels=max_labels).fit(p, truth)
    assert fitted.limits.shape == (6,)
    assert len(set(fitted.limits)) == 1
    assert SHARES[share_of](truth, truth & ~fitted.of(p)) <= 0.2
    assert fitted.promise.statement == statement
    assert fitted.promise.n == 500
    assert LIMITS[0] == 1
    assert LIMITS[-1] == 0


def test_too_few_rows_are_refused_with_the_number_that_would_do():
    p, truth = draw(np.random.default_rng(1), 8)
    with pytest.raises(InvalidInput, match=r"8 rows are too few .* 9 would do"):
        MissedLabelLimit(alpha=0.1, share_of="rows").fit(p, truth)
    MissedLabelLimit(alpha=0.1, share_of="rows").fit(*draw(np.random.default_rng(1), 9))


def test_too_few_labels_are_refused_with_the_number_that_would_do():
    p, truth = np.full((60, 6), 0.5), np.zeros((60, 6), dtype=bool)
    truth[:53, 0] = True
    with pytest.raises(InvalidInput, match=r"in 60 rows 53 labels hold, too few .* 54 would do"):
        MissedLabelLimit(alpha=0.1).fit(p, truth)
    MissedLabelLimit(alpha=0.1, max_labels=5).fit(p, truth)  # of which 45 would do
    truth[53, 0] = True
    MissedLabelLimit(alpha=0.1).fit(p, truth)


def test_a_row_with_more_labels_than_declared_is_refused():
    with pytest.raises(InvalidInput, match="max_labels is 2, and a labelled row has 3 labels; raise max_labels"):
        MissedLabelLimit(max_labels=2).fit(np.full((40, 3), 0.5), np.ones((40, 3), dtype=bool))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"alpha": alpha} for alpha in (0, 1, -0.1, float("nan"), "a")),
        {"share_of": "cases"},
        *({"max_labels": most} for most in (0, -1, 1.5, True)),
    ],
)
def test_settings_are_checked(wrong):
    with pytest.raises(InvalidInput):
        MissedLabelLimit(**wrong)
