"""Rows that belong together (METHODS 10.8)."""

import pytest

from demur.calibration_store.clusters import merge_duplicates, one_per_cluster, split_by_cluster
from demur.uncertainty.checks import InvalidInput


def test_a_split_stays_when_rows_are_added():
    names = [f"patient {k}" for k in range(300)]
    before = split_by_cluster(names, "key", [0.4, 0.3, 0.3])
    after = split_by_cluster([*names, *(f"new {k}" for k in range(50)), *names], "key", [0.4, 0.3, 0.3])
    assert after[:300] == before == after[350:]
    assert before.count(0) == pytest.approx(120, abs=30)


def test_one_row_of_each_cluster_whatever_their_order():
    names, ids = ["a", "a", "b", None, "b"], ["1", "2", "3", "4", "5"]
    own = merge_duplicates(names, [None] * 5)
    kept = {ids[row] for row in one_per_cluster(own, ids, "key")}
    assert len(kept) == 3
    turned = one_per_cluster(own[::-1], ids[::-1], "key")
    assert {ids[::-1][row] for row in turned} == kept


def test_a_long_chain_of_shared_inputs_is_one_cluster():
    n = 5_000
    clusters = [str(k // 2) for k in range(n)]
    inputs = [str((k + 1) // 2) for k in range(n)]
    assert set(merge_duplicates(clusters, inputs)) == {0}


def test_a_number_of_a_cluster_is_no_float():
    with pytest.raises(InvalidInput, match="float"):
        merge_duplicates([1.0], [None])
