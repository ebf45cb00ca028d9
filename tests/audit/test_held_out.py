from dataclasses import replace

import numpy as np
import pytest

from demur.audit import held_out
from demur.audit.findings import Classes, KnownDecisions, findings
from demur.audit.held_out import _of_counts, _of_ranks, _of_sums, calibration_report, rank_replicates, rank_report
from demur.audit.metrics import calibration
from demur.audit.metrics.calibration_sums import WIDTH, columns, values
from demur.audit.metrics.roc_interval import error_roc_interval

METRICS = ("ece", "mce", "brier", "nll", "ece_brier_mean", "citl", "c_slope")


def judged(n=300, seed=0, share_right=0.8):
    rng = np.random.default_rng(seed)
    confidence = np.clip(share_right + 0.3 * rng.normal(size=n), 0, 1)
    quality = (rng.random(n) < confidence).astype(float)
    true = rng.integers(3, size=n)
    return KnownDecisions(
        quality=quality,
        answered=confidence > 0.7,
        confidence=confidence,
        raw_confidence=confidence**0.5,
        scores={"a": rng.random(n) - confidence, "b": rng.random(n)},
        classes=Classes(predicted=np.where(quality == 1, true, (true + 1) % 3), true=true),
        sets=np.column_stack([rng.integers(1, 4, size=n), quality]),
    )


def test_sums_give_what_the_rows_give():
    rows = judged()
    known = columns(rows.confidence, rows.quality)
    assert known.shape[1] == WIDTH
    found = values(known.sum(axis=0)[np.newaxis])
    assert set(found) == set(METRICS)
    for name in METRICS:
        assert found[name][0] == pytest.approx(getattr(calibration, name)(rows.confidence, rows.quality), rel=1e-9)


def test_a_constant_confidence_has_no_slope():
    found = values(columns(np.full(40, 0.7), np.arange(40) % 2.0).sum(axis=0)[np.newaxis])
    assert np.isnan(found["c_slope"][0])
    assert found["mce"][0] == pytest.approx(0.2)


@pytest.mark.slow
def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """The confidence is right by construction: the expected Brier score is the mean of c (1 - c)."""
    held = {"brier": 0, "coverage": 0, "auroc": 0}
    runs = 150
    truth = judged(n=400_000, seed=99)
    p = truth.confidence
    area = rank_report(truth.quality == 1, truth.scores["a"])["value"]
    for seed in range(runs):
        rows = judged(n=150, seed=seed)
        brier, coverage = _of_sums(rows)["brier"], _of_counts(rows)["coverage"]
        held["brier"] += brier.lower <= np.mean(p * (1 - p)) <= brier.upper
        held["coverage"] += coverage.lower <= truth.answered.mean() <= coverage.upper
        ranks = error_roc_interval(rows.quality, rows.scores["a"])
        held["auroc"] += ranks.lower <= area <= ranks.upper
    for name, times in held.items():
        assert 0.87 * runs <= times, name
    assert held["auroc"] < runs  # they are not simply wide


@pytest.mark.slow
def test_ranking_metrics_have_intervals_around_their_values():
    found = _of_ranks(judged())
    assert {"auroc.a", "prr.confidence", "au_prc.b", "ti_95.a", "macro_f1", "ace", "ace_before"} <= set(found)
    assert 0.5 < found["auroc.a"].lower < found["auroc.a"].upper < 1
    by_delong = rank_report(judged().quality == 1, judged().scores["a"])
    assert found["auroc.a"].lower == pytest.approx(by_delong["lower"], abs=0.03)
    assert found["auroc.a"].upper == pytest.approx(by_delong["upper"], abs=0.03)


def test_too_few_errors_give_no_resampled_interval_but_exact_ones():
    rows = judged(share_right=3)
    assert rows.quality.min() == 1
    assert _of_sums(rows) == _of_ranks(rows) == {}
    accuracy = _of_counts(rows)["accuracy"]
    assert (accuracy.lower, accuracy.upper) == (pytest.approx(0.025 ** (1 / 300)), 1.0)
    report = calibration_report(rows.confidence, rows.quality)
    assert (report["ece"]["lower"], report["ece"]["upper"]) == (None, None)


def test_shares_of_right_labels_have_intervals_too():
    rng = np.random.default_rng(0)
    quality = rng.integers(0, 4, size=100) / 3
    report = calibration_report(np.full(100, 0.5), quality)
    assert report["citl"]["lower"] < report["citl"]["value"] < report["citl"]["upper"]


@pytest.mark.parametrize(
    ("correct", "u", "value"),
    [([1, 1, 0, 0], [0, 1, 2, 3], 1.0), ([1, 1, 0, 0], [1, 1, 1, 1], 0.5), ([0, 0, 1, 1], [0, 1, 2, 3], 0.0)],
)
def test_the_area_itself(correct, u, value):
    found = error_roc_interval(correct, u)
    assert found.value == found.lower == found.upper == value  # all ranked alike: no width
    assert (found.n_errors, found.n_right) == (2, 2)


def test_the_area_is_unknown_without_errors_and_its_interval_with_one():
    assert rank_report(np.ones(3, dtype=bool), np.arange(3.0)) == {
        "n": 3, "errors": 0, "value": None, "lower": None, "upper": None,
    }  # fmt: skip
    one = rank_report(np.array([True, True, False]), np.arange(3.0))
    assert (one["value"], one["lower"]) == (1.0, None)


@pytest.mark.parametrize(("n", "scores", "replicates"), [(400, 5, 399), (12_000, 5, 133), (40_000, 5, 99)])
def test_more_rows_get_fewer_replicates(n, scores, replicates, monkeypatch):
    monkeypatch.setattr(held_out, "FEWEST_REPLICATES", 99)  # tests of other folders may have lowered them
    monkeypatch.setattr(held_out, "MOST_REPLICATES", 399)
    assert rank_replicates(n, scores) == replicates


def test_labels_that_hold_are_counted_beside_rows():
    rows = judged(n=400)
    right = np.arange(400) % 4.0  # of every fourth row no label holds
    rows = replace(rows, right_labels=right, sets=np.column_stack([np.ones(400), np.where(right == 0, 1.0, 0.5)]))
    share, mean = ({one.name: one.value for one in findings(rows)}[name] for name in ("label_coverage", "set_coverage"))
    assert share == pytest.approx(0.5)
    assert mean == pytest.approx(0.25 + 0.75 * 0.5)
    found = _of_sums(rows)["label_coverage"]
    assert found.lower <= 0.5 <= found.upper
    assert "label_coverage" not in _of_sums(judged(n=100))
