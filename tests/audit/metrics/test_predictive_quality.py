import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from demur.audit.metrics.predictive_quality import (
    jaccard,
    label_buckets,
    macro_f1,
    macro_f1_by_bucket,
    macro_f1_multilabel,
    macro_f1_prefixes,
)
from demur.uncertainty.checks import InvalidInput

classes = st.lists(st.tuples(st.integers(-2, 4), st.integers(-2, 4)), min_size=1, max_size=40)


@settings(deadline=None)
@given(classes)
def test_macro_f1_is_that_of_scikit_learn_whatever_the_names_are(rows):
    true, predicted = zip(*rows, strict=True)
    expected = pytest.approx(f1_score(true, predicted, average="macro", zero_division=0), abs=1e-12)
    for rename in (int, str, float, lambda x: x * 10**12, lambda x: x if x < 2 else f"c{x}"):
        assert macro_f1([rename(x) for x in true], [rename(x) for x in predicted]) == expected
    assert macro_f1(np.array(true, dtype=np.int8), np.array(predicted, dtype=np.int64)) == expected
    assert macro_f1(np.array(true).astype(str), np.array(predicted).astype(str)) == expected


@settings(deadline=None)
@given(classes)
def test_each_prefix_has_the_macro_f1_of_its_rows(rows):
    true, predicted = np.array(rows).T + 2
    expected = [macro_f1(true[:k], predicted[:k]) for k in range(1, len(true) + 1)]
    np.testing.assert_allclose(macro_f1_prefixes(true, predicted, 7), expected, atol=1e-12)


def test_a_number_is_not_its_digits():
    assert macro_f1([1, "1"], ["1", 1]) == 0


@settings(deadline=None)
@given(
    st.integers(1, 8).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=n, max_size=n)
    )
)
def test_multilabel_f1_is_that_of_scikit_learn(cells):
    table = np.array(cells)
    true, predicted = table % 2, table // 2
    expected = f1_score(true, predicted, average="macro", zero_division=0)
    assert macro_f1_multilabel(true, predicted) == pytest.approx(expected, abs=1e-12)
    present = (true | predicted).any(axis=0)
    exclude = macro_f1_multilabel(true, predicted, absent="exclude")
    if present.any():
        assert exclude == pytest.approx(expected * 5 / present.sum())
    else:
        assert np.isnan(exclude)


def test_an_empty_bucket_is_undefined():
    result = macro_f1_by_bucket([[1, 0]], [[1, 0]], ["head", "tail"], absent="exclude")
    assert result["head"] == 1
    assert all(np.isnan(result[name]) for name in ("medium", "tail", "extreme_tail"))
    assert macro_f1_by_bucket([[1, 0]], [[1, 0]], ["head", "tail"])["tail"] == 0


@pytest.mark.parametrize(
    ("count", "n_train", "bucket"),
    [
        (1, 100, "head"),
        (1, 101, "medium"),
        (0, 1, "extreme_tail"),
        (29, 2900, "head"),
        (28, 2900, "medium"),
        (1, 10001, "extreme_tail"),
    ],
)
def test_buckets_begin_at_their_share(count, n_train, bucket):
    assert label_buckets([count], n_train) == [bucket]


def test_sets_overlap():
    result = jaccard([["a", "b"], [], [], ["c"]], [["b"], [], ["x"], ["c", "c"]])
    assert result.per_sample.tolist() == [0.5, 1, 0, 1]
    assert result.mean == 0.625


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=10))
def test_arrays_and_lists_overlap_alike(cells):
    table = np.array(cells)
    true, predicted = table % 2 == 1, table // 2 == 1
    listed = jaccard(
        [np.flatnonzero(row).tolist() for row in true], [np.flatnonzero(row).tolist() for row in predicted]
    )
    assert jaccard(true, predicted).per_sample.tolist() == listed.per_sample.tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda: macro_f1([], []),
        lambda: macro_f1([0, 1], [0]),
        lambda: macro_f1([0, None], [0, 1]),
        lambda: macro_f1([0, np.nan], [0, 1]),
        lambda: macro_f1(["a", np.nan], ["a", "a"]),
        lambda: macro_f1([[0]], [[0]]),
        lambda: macro_f1([[0], [0, 1]], [0, 1]),
        lambda: macro_f1("ab", "ab"),
        lambda: macro_f1([{}], [{}]),
        lambda: macro_f1_multilabel([[0, 1]], [[0]]),
        lambda: macro_f1_multilabel([[0, 2]], [[0, 1]]),
        lambda: macro_f1_multilabel([[0, np.nan]], [[0, 1]]),
        lambda: macro_f1_multilabel([0, 1], [0, 1]),
        lambda: macro_f1_multilabel([[0, 1]], [[0, 1]], absent="one"),
        lambda: macro_f1_by_bucket([[0, 1]], [[0, 1]], ["head"]),
        lambda: macro_f1_by_bucket([[0, 1]], [[0, 1]], ["head", "body"]),
        lambda: macro_f1_by_bucket([[0, 1]], [[0, 1]], ["head", "head"], absent="one"),
        lambda: macro_f1_by_bucket([[0, 1]], [[0, 1]], None),
        lambda: label_buckets([], 10),
        lambda: label_buckets([1.0], 10),
        lambda: label_buckets([-1], 10),
        lambda: label_buckets([11], 10),
        lambda: label_buckets([1], 0),
        lambda: label_buckets([1], 10.0),
        lambda: jaccard([], []),
        lambda: jaccard([["a"]], [["a"], ["b"]]),
        lambda: jaccard(["a"], [["a"]]),
        lambda: jaccard([[None]], [["a"]]),
        lambda: jaccard([[["a"]]], [["a"]]),
        lambda: jaccard(1, 1),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
