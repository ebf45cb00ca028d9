import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.prediction_sets import set_metrics
from demur.audit.metrics.weighted_sets import weighted_set_metrics
from demur.uncertainty.checks import InvalidInput

ROWS = st.lists(st.tuples(st.sets(st.integers(0, 3)), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=20)


def columns(rows):
    sets, truth, weights = (list(column) for column in zip(*rows, strict=True))
    return [sorted(options) for options in sets], truth, np.array(weights, dtype=np.float64)


@settings(deadline=None)
@given(ROWS, st.sampled_from([1e-300, 7.0, 1e300]), st.randoms(use_true_random=False))
def test_the_identities(rows, factor, random):
    sets, truth, w = columns(rows)
    same, namesake = weighted_set_metrics(sets, truth, np.full(len(w), factor)), set_metrics(sets, truth).overall
    for name in ("n", "coverage", "average_set_size", "empty_rate", "singleton_rate"):
        assert getattr(same, name) == pytest.approx(getattr(namesake, name))
    found, again = weighted_set_metrics(sets, truth, w), weighted_set_metrics(*columns(random.sample(rows, len(rows))))
    assert (found.n_labelled, found.average_set_size) == (np.count_nonzero(w), pytest.approx(namesake.average_set_size))
    covered = np.repeat([t in s for s, t in zip(sets, truth, strict=True)], w.astype(int))
    want = covered.mean() if len(covered) else math.nan
    for coverage in (found.coverage, again.coverage, weighted_set_metrics(sets, truth, w * factor).coverage):
        assert coverage == pytest.approx(want, nan_ok=True)
    cells = np.array([[option in s for option in range(4)] for s in sets])
    unread = [t if k else None for t, k in zip(truth, w, strict=True)]
    np.testing.assert_equal(weighted_set_metrics(cells, unread, w), found)
    np.testing.assert_equal(weighted_set_metrics(sets, unread, w), found)


def test_what_is_refused():
    good = {"sets": [[0], [1, 2]], "truth": [0, None], "weights": [1, 0]}
    assert weighted_set_metrics(**good).coverage == 1
    for changes in (
        {"weights": [1, 1]},
        {"weights": [0, -1]},
        {"sets": [[0]]},
        {"sets": [[0], [1, 1]]},
        {"sets": [[0], "ab"]},
        {"sets": [[0], [None]]},
        {"truth": [0]},
        {"truth": [math.nan, None]},
    ):
        with pytest.raises(InvalidInput):
            weighted_set_metrics(**{**good, **changes})
