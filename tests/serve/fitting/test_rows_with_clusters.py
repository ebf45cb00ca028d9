"""A fit finds the rows that belong together, and says how many there are."""

from pathlib import Path

import numpy as np
import pytest

from demur.serve.fitting.fit import Sources, with_clusters
from demur.traffic.dataset import GivenRow, LabelledFile, SpreadRow


def sources(inputs, clusters=None):
    rows = LabelledFile(
        path=Path("rows"), sha256="0", inputs=inputs, labels=["x"] * len(inputs), groups=[None] * len(inputs),
        clusters=clusters,
    )  # fmt: skip
    return Sources(rows=rows, truth=np.ones((len(inputs), 1), dtype=bool), weights=None, facts={}, remarks=[])


@pytest.mark.parametrize(
    ("inputs", "clusters", "together", "expected", "repeated"),
    [
        (["a", "b", "c"], None, True, None, 0),
        (["a", "b", "a"], None, True, [0, 1, 0], 1),
        (["a", "b", "a"], None, False, None, 0),
        (["a", "b", "a", "d"], ["p", "q", "q", None], True, [0, 0, 0, 1], 1),  # the third row joins both
        (["a", "b", "a", "d"], ["p", "q", "q", None], False, [0, 1, 1, 2], 1),
        ([GivenRow(input=None, output=[1]), GivenRow(input=None, output=[1])], None, True, None, 0),  # nothing is known
        ([GivenRow(input="a", output=[1]), GivenRow(input="a", output=[2])], None, True, [0, 0], 1),
    ],
)
def test_rows_that_share_a_cluster_or_an_input_are_one(inputs, clusters, together, expected, repeated):
    found = with_clusters(sources(inputs, clusters), together=together)
    assert (None if found.clusters is None else found.clusters.tolist()) == expected
    if expected is None:
        assert (found.remarks, found.facts) == ([], {})
    else:
        (remark,) = found.remarks
        assert f"{len(inputs)} labelled rows are of {max(expected) + 1} clusters" in remark
        assert f"{repeated} rows repeat the input of another" in remark
        assert found.facts["clusters"] == max(expected) + 1


def test_equal_outputs_are_not_equal_inputs():
    rows = [SpreadRow(probabilities=[0.9, 0.1]), SpreadRow(probabilities=[0.9, 0.1])]
    assert with_clusters(sources(rows), together=True, is_given=True).clusters is None
    named = [SpreadRow(probabilities=[0.9, 0.1], input="a"), SpreadRow(probabilities=[0.8, 0.2], input="a")]
    assert with_clusters(sources(named), together=True, is_given=True).clusters.tolist() == [0, 0]
    columns = [SpreadRow(age=1), SpreadRow(age=1)]
    assert with_clusters(sources(columns), together=True).clusters.tolist() == [0, 0]
