import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.predictive_quality import macro_f1, macro_f1_by_bucket, macro_f1_multilabel
from demur.audit.metrics.weighted_quality import (
    weighted_macro_f1,
    weighted_macro_f1_by_bucket,
    weighted_macro_f1_multilabel,
)
from demur.uncertainty.checks import InvalidInput

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30)
FACTORS = st.sampled_from([1e-300, 0.3, 1.0, 7.0, 1e300])
NAMES = np.array(["ab", "c", "d", "e"])


def columns(rows):
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def digits(classes):
    """Two labels a row."""
    return np.stack([classes & 1, classes >> 1], axis=1)


def one_class(y, p, w):
    return weighted_macro_f1(y, p, w)


def named(y, p, w):
    return weighted_macro_f1(NAMES[y], NAMES[p], w)


def several(absent):
    return lambda y, p, w: weighted_macro_f1_multilabel(digits(y), digits(p), w, absent=absent)


PAIRS = [
    (one_class, macro_f1),
    (named, macro_f1),
    *((several(absent), lambda y, p, a=absent: macro_f1_multilabel(digits(y), digits(p), absent=a))
      for absent in ("zero", "exclude")),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "namesake"), PAIRS)
@settings(deadline=None)
@given(rows=ROWS, factor=FACTORS, random=st.randoms(use_true_random=False))
def test_the_identities(metric, namesake, rows, factor, random):
    y, p, w = columns(rows)
    np.testing.assert_allclose(metric(y, p, np.full(len(y), factor)), namesake(y, p), atol=1e-9)
    found = metric(y, p, w)
    np.testing.assert_allclose(metric(y, p, w * factor), found, atol=1e-9)
    np.testing.assert_allclose(metric(*columns(random.sample(rows, len(rows)))), found, atol=1e-9)
    if w.any():
        np.testing.assert_allclose(found, namesake(np.repeat(y, w), np.repeat(p, w)), atol=1e-9)
    else:
        assert math.isnan(found)


def test_a_class_that_only_unlabelled_rows_name_is_not_there():
    assert weighted_macro_f1([0, 0, None], [0, 0, 7], [1, 1, 0]) == 1
    assert weighted_macro_f1(["a", "a", None], ["a", "a", "z"], [1, 1, 0]) == 1
    assert weighted_macro_f1_multilabel([[1, 0], None], [[1, 0], [0, 1]], [1, 0], absent="exclude") == 1
    assert weighted_macro_f1_multilabel([[1, 0], None], [[1, 0], [0, 1]], [1, 0]) == 0.5


def test_what_has_no_label_is_not_read_but_its_prediction_is_checked():
    objects = np.array([[0, 1], None], dtype=object)
    assert weighted_macro_f1_multilabel(objects, [[0, 1], [1, 1]], [1, 0], absent="exclude") == 1
    assert math.isnan(weighted_macro_f1(["unread"], [1], [0]))
    assert math.isnan(weighted_macro_f1_multilabel([None], [[0, 1]], [0]))
    for call in (
        lambda: weighted_macro_f1([0, None], [0, 1], [1, 1]),
        lambda: weighted_macro_f1([0, None], [0, None], [1, 0]),
        lambda: weighted_macro_f1([0, None], [0, math.nan], [1, 0]),
        lambda: weighted_macro_f1([0], [0, 1], [1, 1]),
        lambda: weighted_macro_f1([0, 1], [0, 1], [1, -1]),
        lambda: weighted_macro_f1(np.eye(2), np.eye(2), [1, 1]),
        lambda: weighted_macro_f1_multilabel([[1, 0], None], [[1, 0], [0, 2]], [1, 0]),
        lambda: weighted_macro_f1_multilabel([[1, 0], None], [[1, 0], [0, 1]], [1, 1]),
        lambda: weighted_macro_f1_multilabel([[1], None], [[1, 0], [0, 1]], [1, 0]),
        lambda: weighted_macro_f1_multilabel([None], [[1, 0]], [0], absent="mean"),
    ):
        with pytest.raises(InvalidInput):
            call()


def test_many_rows_are_added_up_in_blocks():
    rng = np.random.default_rng(0)
    y, p, w = rng.integers(0, 2, (20_000, 3)), rng.integers(0, 2, (20_000, 3)), rng.integers(0, 3, 20_000)
    repeated = macro_f1_multilabel(np.repeat(y, w, axis=0), np.repeat(p, w, axis=0))
    assert weighted_macro_f1_multilabel(y, p, w) == pytest.approx(repeated, abs=1e-12)


def test_the_labels_of_each_bucket():
    rng, buckets = np.random.default_rng(0), ["head", "tail", "head"]
    y, p, w = rng.integers(0, 2, (30, 3)), rng.integers(0, 2, (30, 3)), rng.integers(0, 3, 30)
    want = macro_f1_by_bucket(np.repeat(y, w, axis=0), np.repeat(p, w, axis=0), buckets)
    assert weighted_macro_f1_by_bucket(y, p, w, buckets) == pytest.approx(want, nan_ok=True)
    assert all(np.isnan(list(weighted_macro_f1_by_bucket([None] * 30, p, [0] * 30, buckets).values())))
    with pytest.raises(InvalidInput):
        weighted_macro_f1_by_bucket(y, p, w, ["head", "tail"])
