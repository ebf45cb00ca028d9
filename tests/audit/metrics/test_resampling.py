import numpy as np
import pytest

from demur.audit.metrics import resampling
from demur.audit.metrics.resampling import METRICS, bootstrap, percentile_interval, resampled
from demur.uncertainty.checks import InvalidInput


@pytest.mark.parametrize(
    ("values", "delta", "ends"),
    [
        (np.arange(1, 1_000), 0.05, (25, 975)),
        (np.arange(1, 2_000)[::-1], 0.05, (50, 1_950)),
        (np.arange(1, 20), 0.1, (1, 19)),  # 0.05 x 20 is 1, and not a little less
        (np.arange(1, 20), 0.05, (np.nan, np.nan)),
        ([*range(1, 96), *[np.nan] * 5], 0.1, (4, 92)),
        ([*range(1, 95), *[np.nan] * 6], 0.1, (np.nan, np.nan)),
    ],
)
def test_the_interval_is_made_of_order_statistics(values, delta, ends):
    found = percentile_interval(np.array(values, dtype=np.float64), delta=delta)
    np.testing.assert_array_equal([found.lower, found.upper], ends)


def test_samples_are_rows_drawn_with_replacement(monkeypatch):
    columns = np.random.default_rng(0).normal(size=(50, 2))
    whole = resampled(columns, lambda sums: sums, rng=np.random.default_rng(1), replicates=30)
    rng = np.random.default_rng(1)
    by_hand = [columns[rng.integers(50, size=50)].sum(axis=0) for _ in range(30)]
    np.testing.assert_allclose(whole, by_hand)
    monkeypatch.setattr(resampling, "CELLS_AT_A_TIME", 400)  # in blocks of 8
    np.testing.assert_allclose(
        resampled(columns, lambda sums: sums, rng=np.random.default_rng(1), replicates=30), whole
    )


def test_rows_that_are_alike_need_to_be_there_only_once():
    once = np.random.default_rng(0).normal(size=(3, 2))
    alike = np.array([0, 2, 2, 1, 0, 2, 2])
    each, of_once = (
        resampled(columns, lambda sums: sums, rng=np.random.default_rng(1), replicates=30, alike=found)
        for columns, found in ((once[alike], None), (once, alike))
    )
    np.testing.assert_allclose(of_once, each)


def test_the_bootstrap_of_sums_and_of_a_metric_are_the_same():
    rng = np.random.default_rng(0)
    values, weights = rng.random(40), rng.integers(0, 3, size=40)
    rows = np.random.default_rng(1).integers(40, size=(199, 40))
    found = bootstrap("weighted_mean", {"values": values, "weights": weights}, rows, delta=0.1)
    want = percentile_interval(
        resampled(
            np.column_stack([values * weights, weights]).astype(float),
            lambda sums: sums[:, :1] / sums[:, 1:],
            rng=np.random.default_rng(1),
            replicates=199,
        )[:, 0],
        delta=0.1,
    )
    assert (found.lower, found.upper) == pytest.approx((want.lower, want.upper))
    assert found.estimate == pytest.approx(values @ weights / weights.sum())
    assert found.n_undefined == 0


def test_all_rows_of_a_drawn_cluster_enter():
    inputs = {"values": [0, 1, 0, 1, 1], "weights": [1, 1, 1, 1, 0]}
    found = bootstrap(
        "weighted_mean", inputs, [[0], [1], [2]] * 7, clusters=["b", "a", "b", "a", "c"], delta=0.1
    )  # b: 0; a: 1; c: no label
    assert found.n_undefined == 7
    assert np.isnan(found.lower)
    found = bootstrap("weighted_mean", inputs, [[0], [1], [0, 1]] * 7, clusters=["b", "a", "b", "a", "c"], delta=0.1)
    assert (found.estimate, found.lower, found.upper) == (0.5, 0, 1)


GUESSES = {"confidence": [0.2, 0.9, 0.6, 0.4], "outcome": [0, 1, None, 1]}
LABELS = {"labels": [0, 1, None, 1], "scores": [0.2, 0.9, 0.6, 0.4]}
CORRECT = {"correct": [0, 1, None, 1], "u": [0.2, 0.9, 0.6, 0.4]}
WEIGHTED = {
    "weighted_mean": {"values": [0, 1, None, 1]},
    **{f"weighted_{name}": GUESSES for name in ("ece", "ace", "brier", "nll", "citl", "c_slope")},
    **{f"weighted_{name}": LABELS for name in ("roc_auc", "au_prc")},
    **{f"weighted_{name}": CORRECT for name in ("error_roc_auc", "error_au_prc")},
    **{f"weighted_{name}": {"risks": [0, 1, None, 1], "u": [1, 2, 3, 4]} for name in ("rc_auc", "n_rc_auc")},
    "weighted_prr": {"quality": [0, 1, None, 1], "u": [1, 2, 3, 4], "max_rejection": 0.5},
    "weighted_macro_f1": {"y_true": ["a", "b", None, "b"], "y_pred": ["a", "a", "c", "b"]},
}


def test_every_weighted_metric_is_here():
    assert WEIGHTED.keys() == {name for name in METRICS if name.startswith("weighted_")}


@pytest.mark.parametrize("metric", WEIGHTED)
def test_rows_without_a_label_are_drawn_as_well(metric):
    inputs = {**WEIGHTED[metric], "weights": [1, 4, 0, 1]}
    found = bootstrap(metric, inputs, [[3, 2, 1, 0], [0, 1, 2, 3], [2, 2, 2, 2]])
    assert found.estimate == pytest.approx(METRICS[metric](**inputs))
    assert found.n_undefined == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"metric": "unknown"},
        {"inputs": {"values": [1]}},
        {"inputs": {"values": [1, 0], "weights": [1]}},
        {"inputs": {"values": 1, "weights": 1}},
        {"resamples": []},
        {"resamples": [[0], []]},
        {"resamples": [[2]]},
        {"resamples": [[-1]]},
        {"resamples": [[0.0]]},
        {"resamples": [[True]]},
        {"clusters": ["a"]},
        {"clusters": ["a", "a"]},  # there is no cluster at position 1
        {"delta": 0},
    ],
)
def test_what_cannot_be_resampled(changes):
    good = {"metric": "weighted_mean", "inputs": {"values": [1, 0], "weights": [1, 1]}, "resamples": [[0, 1]]}
    bootstrap(**good)
    with pytest.raises(InvalidInput):
        bootstrap(**{**good, **changes})
