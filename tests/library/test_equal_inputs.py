"""Copies of a row count once, whatever holds the rows."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import binom
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from demur import SelectiveClassifier
from demur.library.equal_inputs import inputs_of
from demur.library.given_rows import trained_and_calibrated

NUMBERS = np.array([[1.0, 0.0], [2.0, 3.0], [1.0, -0.0], [np.nan, 1.0], [np.nan, 1.0]])
TABLE = pd.DataFrame({"word": ["a", "b", "a", None, None], "number": NUMBERS[:, 0]})


@pytest.mark.parametrize(
    "rows",
    [
        NUMBERS,
        NUMBERS.astype(np.float32)[:, :, None],
        NUMBERS.tolist(),
        list(NUMBERS),
        sparse.csr_matrix(NUMBERS),
        sparse.csc_array(NUMBERS),
        TABLE,
        TABLE.to_numpy(),
        ["a", "b", "a", "", ""],
        np.array(["a", "b", "a", "", ""]),
        pd.Series(["a", "b", "a", "", ""]),
    ],
)
def test_equal_inputs_are_found(rows):
    found = inputs_of(rows)
    assert len(found) == 5
    assert found[0] == found[2]
    assert found[3] == found[4]
    assert len(set(found)) == 3


@pytest.mark.parametrize("rows", [object(), np.empty((3, 0)), np.float64(1)])
def test_rows_that_cannot_be_told_from_outside_are_left_apart(rows):
    assert inputs_of(rows) is None


def copied(rng, n, copies):
    """Rows [n * copies, 2] of which the label is a matter of chance."""
    X, y = np.repeat(rng.normal(size=(n, 2)), copies, axis=0), np.repeat(rng.integers(0, 2, n), copies)
    order = rng.permutation(len(y))
    return X[order], y[order]


def classifier(**settings):
    model = LogisticRegression().fit(*copied(np.random.default_rng(5), 200, 1))
    policy = {"kind": "selective_risk", "max_risk": 0.5, "delta": 0.1}
    return SelectiveClassifier(FrozenEstimator(model), policy=policy, prediction_set=None, anyway=True, **settings)


def test_copies_are_one_cluster_and_the_report_says_so():
    X, y = copied(np.random.default_rng(0), 100, 3)
    fitted = classifier().fit_calibration(X, y)
    assert fitted.report().fit.clustered
    assert "300 labelled rows are of 100 clusters" in fitted.report().remarks[0]
    assert "200 rows repeat the input of another" in fitted.report().remarks[0]
    assert len(fitted.report_rows_) == 40
    apart = classifier(equal_inputs="apart").fit_calibration(X, y)
    assert not apart.report().fit.clustered
    named = classifier(equal_inputs="apart").fit_calibration(X, y, clusters=np.arange(300) // 2)
    assert "300 labelled rows are of 150 clusters: rows that share a `cluster`." in named.report().remarks[0]
    with pytest.raises(ValueError, match="equal_inputs is 'alone'; it is 'together' or 'apart'"):
        classifier(equal_inputs="alone").fit_calibration(X, y)


def test_rows_of_probabilities_are_not_inputs():
    rng = np.random.default_rng(0)
    p = rng.choice([0.6, 0.9], 300)
    fitted = SelectiveClassifier(prediction_set=None, anyway=True)
    fitted.fit_calibration(np.column_stack([1 - p, p]), (rng.random(300) < p).astype(int))
    assert not fitted.report().fit.clustered


def test_copies_are_trained_on_or_calibrated_on_and_never_both():
    X, y = copied(np.random.default_rng(0), 200, 4)
    model = SelectiveClassifier(LogisticRegression(), prediction_set=None, anyway=True).fit(X, y)
    calibrated = np.zeros(len(y), dtype=bool)
    calibrated[model.calibration_rows_] = True
    assert not set(map(tuple, X[calibrated])) & set(map(tuple, X[~calibrated]))
    assert calibrated.sum() == 400
    assert model.report().fit.clustered


def test_a_class_that_would_be_unseen_is_trained_on_with_its_copies():
    target, clusters = np.array([0] * 20 + [1, 1]), np.arange(22)
    clusters[21] = 20
    for seed in range(20):
        parts = trained_and_calibrated(target, True, 0.5, np.random.default_rng(seed), clusters)
        assert {20, 21} <= set(parts.trained)
        assert sorted([*parts.trained, *parts.calibrated]) == list(range(22))
        assert parts.drawn == 10
        assert bool(parts.remarks) == bool(parts.moved)


@pytest.mark.slow
def test_a_promise_is_kept_with_ten_copies_of_each_row():
    """Each limit breaks the promise, by a hair: half of the answers are wrong, whatever the score."""
    delta, draws, rng = 0.1, 150, np.random.default_rng(1)
    broken = {"together": 0, "apart": 0}
    for _ in range(draws):
        X, y = copied(rng, 60, 10)
        for how in broken:
            model = classifier(equal_inputs=how).set_params(
                policy={"kind": "selective_risk", "max_risk": 0.499, "delta": delta}
            )
            broken[how] += bool(model.fit_calibration(X, y).selector_.policy.promise.feasible)
    assert broken["together"] <= binom.ppf(0.999, draws, delta)
    assert broken["apart"] > 0.2 * draws
