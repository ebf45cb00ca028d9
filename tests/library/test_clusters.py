"""Rows that belong together, such as those of one patient: counted one by one, they make a promise too easily."""

import numpy as np
import pytest

from demur import SelectiveClassifier

MAX_RISK, DELTA = 0.15, 0.1
POLICY = {"kind": "selective_risk", "max_risk": MAX_RISK, "delta": DELTA}


def patients(rng, n, visits):
    """Probabilities [n * visits, 2], labels and names. All visits of a patient are alike, and so is what was right."""
    sure = rng.uniform(0.5, 1.0, n)
    right = rng.random(n) < sure
    second = rng.random(n) < 0.5
    probabilities = np.where(second, sure, 1 - sure)
    labels = np.where(second == right, 1, 0)
    rows = np.repeat(np.arange(n), visits)
    return np.column_stack([1 - probabilities, probabilities])[rows], labels[rows], rows


def fitted(seed, *, clustered, n=150, visits=12):
    rng = np.random.default_rng(seed)
    probabilities, labels, names = patients(rng, n, visits)
    classifier = SelectiveClassifier(policy=POLICY, prediction_set=None, random_state=0, anyway=True)
    return classifier.fit_calibration(probabilities, labels, clusters=names if clustered else None)


def test_a_cluster_is_in_one_part_and_counts_once():
    classifier = fitted(0, clustered=True)
    names = np.repeat(np.arange(150), 12)
    reported = np.unique(names[classifier.report_rows_])
    assert len(classifier.report_rows_) == len(reported)
    assert classifier.report().fit.clustered
    assert "cluster" in str(classifier.report().fit.promises)
    assert not fitted(0, clustered=False).report().fit.clustered


def test_names_may_be_numbers_or_lacking():
    probabilities, labels, names = patients(np.random.default_rng(0), 300, 2)
    loose = SelectiveClassifier(policy=POLICY, anyway=True)
    alone = loose.fit_calibration(probabilities, labels, clusters=[None] * 600)
    assert not alone.report().fit.clustered
    some = [None if name < 200 else float(name) for name in names]
    assert loose.fit_calibration(probabilities, labels, clusters=some).report().fit.clustered
    with pytest.raises(ValueError, match="clusters"):
        loose.fit_calibration(probabilities, labels, clusters=names[:5])


@pytest.mark.long
def test_the_promise_holds_for_clusters_and_breaks_where_their_rows_count_one_by_one():
    probabilities, labels, _ = patients(np.random.default_rng(99), 20_000, 1)

    def is_broken(classifier):
        table = classifier.decide(probabilities)
        wrong = table.judgement.predicted.argmax(axis=1) != labels
        return bool(table.answered.any()) and wrong[table.answered].mean() > MAX_RISK

    n = 60
    kept, broken = (
        sum(is_broken(fitted(seed, clustered=clustered, n=60, visits=30)) for seed in range(n))
        for clustered in (True, False)
    )
    often = DELTA * n + 2 * np.sqrt(n * DELTA * (1 - DELTA))
    assert kept <= often
    assert broken > often
