"""The benchmark of repeated rows counts fits that break their promise."""

import numpy as np

from benchmarks.repeated_rows import ROWS, Frequency, frequency, labelled


def test_copies_are_equal_rows_and_their_clusters_are_told_or_not():
    rows = labelled(10, np.random.default_rng(0), told=True)
    assert len(np.unique(rows.clusters)) == len(np.unique(rows.output.logits[:, 0])) == ROWS // 10
    assert labelled(10, np.random.default_rng(0), told=False).clusters is None


def test_the_same_rows_are_fitted_by_rows_and_by_clusters():
    assert frequency(10, "ltt_fixed_sequence", told=True, fits=2).fits == 2
    assert str(Frequency(broken=29, fits=100)) == "29.0%"
