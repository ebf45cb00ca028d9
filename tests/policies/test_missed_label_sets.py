import numpy as np
import pytest

from demur.policies.decision import Action
from demur.policies.missed_label_sets import MissedLabels, MissedLabelSets
from demur.uncertainty.checks import InvalidInput
from tests.policies.conftest import assessed


def draw(rng, n, labels=8):
    """Labels that hold with the probabilities that are given."""
    p = rng.beta(0.4, 1.2, size=(n, labels))
    return p, rng.random(p.shape) < p


SHARES = {
    "labels": lambda truth, missed: missed.sum() / truth.sum(),
    "rows": lambda truth, missed: (missed.sum(axis=1) / np.maximum(truth.sum(axis=1), 1)).mean(),
}
"""The two shares, in the words of METHODS 10.4."""


@pytest.mark.slow
@pytest.mark.parametrize(("share_of", "n"), [("labels", 400), ("rows", 200)])
def test_few_labels_are_missed_on_average_and_the_sets_are_not_larger_than_needed(share_of, n):
    rng = np.random.default_rng(0)
    p, truth = draw(rng, 20_000)
    shares, sizes = [], []
    for _ in range(150):
        sets = MissedLabelSets(alpha=0.1, share_of=share_of).fit(*draw(rng, n))
        members = sets.of(p)
        shares.append(SHARES[share_of](truth, truth & ~members))
        sizes.append(members.sum(axis=1).mean())
    assert np.mean(shares) <= 0.1 + 3 * np.std(shares) / np.sqrt(150)
    assert np.mean(shares) > 0.085  # the last step of the limit costs about a hundredth
    best = next(
        limit for limit in np.arange(1000, -1, -1) / 1000 if SHARES[share_of](truth, truth & (p < limit)) <= 0.1
    )
    assert np.mean(sizes) <= 1.15 * (p >= best).sum(axis=1).mean()  # beside who knows the best limit


@pytest.mark.slow
def test_of_the_labels_that_hold_no_more_are_missing_than_is_said():
    """A probability that says nothing, and a label in three rows of ten: the mean over rows would allow a third."""
    rng = np.random.default_rng(0)
    sets = MissedLabelSets(alpha=0.1).fit(rng.random((5_000, 1)), rng.random((5_000, 1)) < 0.3)
    p, truth = rng.random((50_000, 1)), rng.random((50_000, 1)) < 0.3
    assert sets.promise.statement == (
        "at most 10% of all labels that hold are missing from their sets, on average, as long as later traffic is drawn"
        " like the calibration data"
    )
    assert SHARES["labels"](truth, truth & ~sets.of(p)) <= 0.11
    of_rows = MissedLabelSets(alpha=0.1, share_of="rows").fit(p, truth)
    assert SHARES["labels"](truth, truth & ~of_rows.of(p)) > 0.3
    assert of_rows.promise.statement.startswith(
        "at most 10% of a row's labels are missing from its set (a row without labels misses nothing), on average"
    )
    assert sets.promise_in_words == "with at most 10% of the right labels missed"
    assert of_rows.promise_in_words == "with at most 10% of a row's labels missed on average"


def test_too_few_rows_rule_nothing_out_and_promise_nothing():
    sets = MissedLabelSets(alpha=0.01).fit(*draw(np.random.default_rng(0), 50))
    assert sets.of(np.zeros((1, 8))).all()
    assert not sets.promise.feasible
    assert MissedLabelSets(alpha=0.1).fit(*draw(np.random.default_rng(0), 50)).promise.feasible


def test_an_unknown_probability_is_in_no_set():
    sets = MissedLabelSets(alpha=0.2).fit(*draw(np.random.default_rng(0), 50))
    assert not sets.of(np.full((1, 8), np.nan)).any()


@pytest.mark.parametrize(
    ("spare", "more", "confidence", "action", "reason"),
    [
        (0, 0, 0.9, Action.ANSWER, "no further label cannot be ruled out at 1% error"),
        (0, 1, 0.9, Action.REVIEW, "1 further label cannot be ruled out at 1% error, and none may be left open"),
        (2, 2, 0.9, Action.ANSWER, "2 further labels cannot be ruled out at 1% error"),
        (2, 3, 0.9, Action.REVIEW, "3 further labels cannot be ruled out at 1% error, and 2 may be left open"),
        (2, 0, np.nan, Action.REVIEW, "the confidence is unknown, and what is unknown is held"),
    ],
)
def test_decide(spare, more, confidence, action, reason):
    decided = MissedLabels(spare=spare).decide(assessed([confidence], more_labels=[more]))
    assert decided.actions == (action,)
    assert decided.reasons == (reason,)


def test_a_set_that_rules_out_nothing_answers_nothing():
    decided = MissedLabels(spare=3).decide(assessed([0.9], sizes=[3], more_labels=[0]))
    assert decided.actions == (Action.REVIEW,)
    assert decided.reasons == ("no label can be ruled out at 1% error",)


def test_settings_and_sets_are_needed():
    with pytest.raises(InvalidInput, match="there are none"):
        MissedLabels().decide(assessed([0.5]))
    with pytest.raises(InvalidInput):
        MissedLabels(spare=-1)
    with pytest.raises(InvalidInput):
        MissedLabelSets(alpha=0.0)
