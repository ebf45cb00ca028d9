"""Some records of a ledger, in another order."""

from dataclasses import replace

import numpy as np
import pytest

from demur.audit.ledger.ledger import CodedColumn, Mentions, TopColumns
from tests.audit.report.simulated import simulated


def test_rows_are_taken_with_all_that_belongs_to_them() -> None:
    whole = simulated(50, np.random.default_rng(0), all_known=True, per_cluster=5).ledger
    index = np.array([40, 3, 17])
    some = whole.rows(index)
    assert len(some) == 3
    assert [some.ids[at] for at in range(3)] == [whole.ids[at] for at in index.tolist()]
    for name in ("times", "quality", "confidence", "drawn", "label_probability"):
        np.testing.assert_array_equal(getattr(some, name), getattr(whole, name)[index])
    assert some.clusters.names == whole.clusters.names
    assert some.clusters.codes.tolist() == (index // 5).tolist()
    assert whole.rows(np.arange(50)).quality == pytest.approx(whole.quality)


def test_labels_that_hold_together_go_with_their_rows() -> None:
    mentions = Mentions(
        rows=np.array([0, 0, 1, 3]),
        labels=CodedColumn(names=("a", "b"), codes=np.array([0, 1, 1, 0], dtype=np.int32)),
        predicted=np.array([True, False, True, True]),
        right=np.array([True, True, False, True]),
        probability=np.array([0.9, 0.2, 0.7, 0.6]),
    )
    top = TopColumns(
        probabilities=np.arange(8.0).reshape(4, 2),
        calibrated=np.arange(8.0).reshape(4, 2),
        hits=np.ones((4, 2)),
        right=np.arange(4.0),
    )
    whole = replace(simulated(4, np.random.default_rng(0), all_known=True).ledger, mentions=mentions, top=top)
    some = whole.rows(np.array([3, 0]))
    assert some.top is not None
    assert some.top.right.tolist() == [3, 0]
    assert some.mentions is not None
    assert some.mentions.rows.tolist() == [0, 1, 1]
    assert some.mentions.labels.codes.tolist() == [0, 0, 1]
    assert some.mentions.probability.tolist() == [0.6, 0.9, 0.2]
