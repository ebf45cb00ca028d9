"""What ratings are worth where labels are known."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from demur.audit.metrics.ratings import best_cut, measure_ratings
from demur.audit.rating_plot import rating_plot
from demur.uncertainty.checks import InvalidInput

RATINGS = np.array([900.0, 1000.0, 1000.0, 1100.0, 1200.0, 1300.0])


@pytest.mark.parametrize(
    ("positive", "criterion", "rating", "value", "precision", "recall"),
    [
        ([0, 0, 0, 1, 1, 1], "f1", 1050, 1.0, 1.0, 1.0),
        ([0, 0, 0, 1, 1, 1], "youden", 1050, 1.0, 1.0, 1.0),
        ([0, 1, 0, 1, 0, 1], "f1", 950, 3 / 4, 3 / 5, 1.0),  # equal ratings are never parted
        ([1, 1, 1, 1, 1, 0], "f1", 900, 10 / 11, 5 / 6, 1.0),  # everything is positive: the cut is the lowest rating
        ([0, 0, 0, 0, 0, 1], "youden", 1250, 1.0, 1.0, 1.0),
        ([1, 0, 0, 0, 0, 1], "youden", 1250, 1 / 2, 1.0, 1 / 2),
    ],
)
def test_best_cut(positive, criterion, rating, value, precision, recall):
    cut = best_cut(RATINGS, np.array(positive, dtype=bool), criterion=criterion)
    assert (cut.rating, cut.criterion) == (rating, criterion)
    assert [cut.value, cut.precision.value, cut.recall.value] == pytest.approx([value, precision, recall])
    assert cut.precision.lower <= cut.precision.value <= cut.precision.upper


def test_measures_agree_with_scikit_learn_and_hold_what_is_true():
    rng = np.random.default_rng(1)
    ratings = rng.normal(1000, 100, 500)
    positive = rng.random(500) < 1 / (1 + np.exp(-(ratings - 1000) / 50))
    found = measure_ratings(ratings, positive, rng=rng)
    assert found.auroc.value == pytest.approx(roc_auc_score(positive, ratings))
    assert found.auprc.value == pytest.approx(average_precision_score(positive, ratings))
    for measured in (found.auroc, found.auprc, found.cut.precision, found.cut.recall):
        assert measured.lower < measured.value < measured.upper
    line = found.to_probability
    assert line.confidence(ratings).mean() == pytest.approx(positive.mean())
    assert (np.diff(line.confidence(np.sort(ratings))) >= 0).all()


@pytest.mark.parametrize(
    ("ratings", "positive"),
    [([1.0, 2.0], [1, 1]), ([1.0, 2.0], [0, 0]), ([1.0], [1, 0]), ([np.nan, 1.0], [1, 0]), ([1.0, 2.0], [1, 2])],
)
def test_what_cannot_be_measured_is_refused(ratings, positive):
    with pytest.raises(InvalidInput):
        measure_ratings(ratings, positive, rng=np.random.default_rng(0))


@pytest.mark.slow
def test_the_picture_names_what_it_shows():
    positive = np.array([0, 0, 0, 1, 1, 1], dtype=bool)
    found = measure_ratings(RATINGS, positive, rng=np.random.default_rng(0))
    groups = {"no": RATINGS[~positive], "yes": RATINGS[positive], "no label": RATINGS[:0]}
    picture = rating_plot(groups, to_probability=found.to_probability, cut=found.cut.rating)
    assert picture.startswith("<svg")
    assert picture == rating_plot(groups, to_probability=found.to_probability, cut=found.cut.rating)
    assert rating_plot({"no label": RATINGS}).startswith("<svg")
