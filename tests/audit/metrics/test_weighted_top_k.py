import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics import top_k
from demur.audit.metrics.weighted_top_k import weighted_at_k
from demur.uncertainty.checks import InvalidInput

NAMESAKES = {
    "ece": top_k.ece_at_k,
    "ace": top_k.ace_at_k,
    "brier": top_k.brier_at_k,
    "nll": top_k.nll_at_k,
    "precision": top_k.precision_at_k,
}
CELL = st.tuples(st.sampled_from([0.0, 0.2, 0.5, 1.0]) | st.floats(0, 1), st.integers(0, 1))
ROW = st.tuples(st.lists(CELL, min_size=3, max_size=3), st.integers(0, 4))


def columns(rows):
    cells = np.array([row for row, _ in rows])
    return cells[:, :, 0], cells[:, :, 1], np.array([weight for _, weight in rows], dtype=np.float64)


@pytest.mark.parametrize("metric", NAMESAKES)
@settings(deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=12), k=st.integers(1, 3), random=st.randoms(use_true_random=False))
def test_the_identities(metric, rows, k, random):
    p, y, w = columns(rows)
    namesake = NAMESAKES[metric]
    assert weighted_at_k(metric, p, y, np.full(len(w), 7), k) == pytest.approx(namesake(p, y, k), abs=1e-9)
    found = weighted_at_k(metric, p, y, w, k)
    for again in (
        weighted_at_k(metric, p, y, w * 1e300, k),
        weighted_at_k(metric, *columns(random.sample(rows, len(rows))), k),
        weighted_at_k(metric, p, [row if known else None for row, known in zip(y, w, strict=True)], w, k),
    ):
        assert again == pytest.approx(found, abs=1e-9, nan_ok=True)
    if not w.any():
        assert math.isnan(found)
    elif metric != "ace":  # its bins hold equal numbers of all rows
        times = w.astype(int)
        repeated = namesake(np.repeat(p, times, axis=0), np.repeat(y, times, axis=0), k)
        assert found == pytest.approx(repeated, abs=1e-9)


def test_the_number_of_bins_is_handed_on():
    p, y = [[0.1, 0.9], [0.6, 0.3]], [[0, 1], [0, 1]]
    for metric in ("ece", "ace"):
        want = NAMESAKES[metric](p, y, 2, n_bins=1)
        assert weighted_at_k(metric, p, y, [1, 1], 2, n_bins=1) == pytest.approx(want)


def test_what_is_refused():
    good = {"metric": "ece", "probs": [[0.1, 0.9], [0.6, 0.3]], "targets": [[0, 1], None], "weights": [1, 0], "k": 1}
    weighted_at_k(**good)
    for changes in (
        {"metric": "citl"},
        {"probs": [[0.1, 0.9], [0.6, math.nan]]},
        {"probs": [[0.1, 0.9]]},
        {"targets": [[0, 1]]},
        {"targets": [[0, 2], None]},
        {"targets": [[0, 1, 0], None]},
        {"weights": [1, 1]},
        {"weights": [0, 0], "n_bins": 0},
        {"weights": [0, 0], "k": 3},
        {"k": 0},
    ):
        with pytest.raises(InvalidInput):
            weighted_at_k(**{**good, **changes})
