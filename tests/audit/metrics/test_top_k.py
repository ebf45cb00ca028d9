import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics import calibration
from demur.audit.metrics.top_k import TopK, ace_at_k, brier_at_k, ece_at_k, nll_at_k, precision_at_k
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.top_k import top_labels

few_values = st.sampled_from([0.0, 0.2, 0.5, 1.0])


@st.composite
def tables(draw):
    n, width = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    cells = draw(
        st.lists(st.tuples(few_values | st.floats(0, 1), st.booleans()), min_size=n * width, max_size=n * width)
    )
    probs, targets = zip(*cells, strict=True)
    return np.array(probs).reshape(n, width), np.array(targets).reshape(n, width), draw(st.integers(1, width))


@settings(deadline=None)
@given(tables())
def test_the_highest_labels_ties_to_the_lowest_index(table):
    probs, _, k = table
    assert top_labels(probs, k).tolist() == np.argsort(-probs, axis=1, kind="stable")[:, :k].tolist()


@pytest.mark.slow
@settings(deadline=None)
@given(tables())
def test_the_metrics_are_those_of_the_pooled_pairs(table):
    probs, targets, k = table
    labels = np.argsort(-probs, axis=1, kind="stable")[:, :k]
    scores = np.take_along_axis(probs, labels, axis=1).ravel()
    hits = np.take_along_axis(targets, labels, axis=1).ravel()
    assert ece_at_k(probs, targets, k) == pytest.approx(calibration.ece(scores, hits, n_bins=10), abs=1e-12)
    assert ace_at_k(probs, targets, k) == pytest.approx(calibration.ace(scores, hits), abs=1e-12)
    assert brier_at_k(probs, targets, k) == pytest.approx(calibration.brier(scores, hits), abs=1e-12)
    assert nll_at_k(probs, targets, k) == pytest.approx(calibration.nll(scores, hits), abs=1e-12)
    assert precision_at_k(probs, targets, k) == pytest.approx(hits.mean())


@pytest.mark.slow
@settings(deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_candidates_and_true_pairs_say_the_same_as_the_matrix(table, random):
    probs, targets, k = table
    width = probs.shape[1]
    m = random.randint(k, width)
    candidates = top_labels(probs, m)
    shuffled = np.array([random.sample(row, m) for row in candidates.tolist()])
    pairs = random.sample(np.argwhere(targets).tolist(), int(targets.sum()))
    rows, names = np.array(pairs, dtype=int).reshape(-1, 2).T
    sparse = TopK.of_candidates(np.take_along_axis(probs, shuffled, axis=1), shuffled, rows, names, k)
    dense = TopK.of_matrix(probs, targets, k)
    for name in ("scores", "hits", "labels"):
        np.testing.assert_array_equal(getattr(sparse, name), getattr(dense, name))


def test_a_large_matrix_is_read_in_parts(monkeypatch):
    monkeypatch.setattr("demur.uncertainty.top_k.CHUNK", 7)
    probs = np.random.default_rng(0).integers(0, 3, (20, 5)) / 2
    assert top_labels(probs, 2).tolist() == np.argsort(-probs, axis=1, kind="stable")[:, :2].tolist()


def test_labels_may_number_in_the_millions():
    found = TopK.of_candidates([[0.9, 0.1], [0.4, 0.6]], [[3_000_000, 5], [7, 8]], [0, 1], [3_000_000, 7], 1)
    assert found.hits.tolist() == [[True], [False]]
    assert found.labels.tolist() == [[3_000_000], [8]]


@pytest.mark.parametrize(
    "call",
    [
        lambda: ece_at_k([[0.5]], [[1]], 0),
        lambda: ece_at_k([[0.5]], [[1]], 2),
        lambda: ece_at_k([[0.5]], [[1]], 1.0),
        lambda: ece_at_k([[0.5]], [[1]], 1, n_bins=0),
        lambda: ace_at_k([[0.5]], [[2]], 1),
        lambda: brier_at_k([[1.5]], [[1]], 1),
        lambda: nll_at_k([[0.5, 0.5]], [[1]], 1),
        lambda: precision_at_k([0.5], [1], 1),
        lambda: precision_at_k([], [], 1),
        lambda: TopK(scores=np.array([[0.5]]), hits=np.array([[True, False]])),
        lambda: TopK.of_candidates([[0.5, 0.4]], [[1, 1]], [0], [1], 1),
        lambda: TopK.of_candidates([[0.5]], [[-1]], [0], [1], 1),
        lambda: TopK.of_candidates([[0.5]], [[1]], [1], [1], 1),
        lambda: TopK.of_candidates([[0.5]], [[1]], [0, 0], [1], 1),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
