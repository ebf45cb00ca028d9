"""What a fit report says group by group, beside the metrics of the rows of one group."""

from dataclasses import replace

import numpy as np
import pytest

from demur.audit.findings import KnownDecisions
from demur.audit.group_lines import MOST_GROUPS, group_intervals, group_lines
from demur.audit.metrics.calibration import ece
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.intervals import clopper_pearson


def judged(n=300, seed=0):
    rng = np.random.default_rng(seed)
    confidence = rng.random(n)
    quality = (rng.random(n) < confidence).astype(float)
    sets = np.column_stack([rng.integers(1, 4, size=n), np.maximum(quality, rng.random(n) < 0.5)])
    return KnownDecisions(
        quality=quality,
        answered=confidence > 0.4,
        confidence=confidence,
        raw_confidence=None,
        scores={},
        sets=sets.astype(float),
    )


def test_numbers_are_those_of_the_rows_of_the_group():
    rows = judged()
    groups = [("north", "south", None)[at % 3] for at in range(300)]
    lines = {line.name: line for line in group_lines(rows, groups)}
    own = np.arange(0, 300, 3)
    answered = rows.answered[own]
    wrong = 1 - rows.quality[own][answered]
    assert lines["group_risk.north"].value == pytest.approx(wrong.mean())
    assert lines["group_risk.north"].n == answered.sum()
    assert lines["group_coverage.north"].value == pytest.approx(answered.mean())
    assert lines["group_set_size.north"].value == pytest.approx(rows.sets[own, 0].mean())
    assert lines["group_set_coverage.north"].value == pytest.approx(rows.sets[own, 1].mean())
    assert lines["group_auroc.north"].value == pytest.approx(error_roc_auc(rows.quality[own], -rows.confidence[own]))
    assert lines["group_ece.north"].value == pytest.approx(ece(rows.confidence[own], rows.quality[own]))
    assert {name.partition(".")[2] for name in lines} == {"north", "south"}
    ends = group_intervals(list(lines.values()), rows)
    assert ends["group_risk.north"] == clopper_pearson(int(wrong.sum()), len(wrong))
    assert {name.partition(".")[0] for name in ends} == {"group_coverage", "group_risk", "group_set_coverage"}


def test_small_groups_have_shares_alone_and_an_unanswered_one_no_risk():
    rows = judged(n=40)
    rows = replace(rows, answered=np.zeros(40, dtype=bool))
    lines = {line.name: line for line in group_lines(rows, ["a"] * 29 + ["b"] * 11)}
    assert lines["group_auroc.a"].value is None
    assert lines["group_ece.a"].value is None
    assert lines["group_risk.a"].value is None
    assert lines["group_set_coverage.a"].value is not None
    assert "group_risk.a" not in group_intervals(list(lines.values()), rows)


def test_shares_of_label_sets_are_no_counts():
    rows = judged()
    rows = replace(rows, quality=rows.quality * 0.5, sets=rows.sets * 0.5)
    ends = group_intervals(list(group_lines(rows, ["a"] * 300)), rows)
    assert set(ends) == {"group_coverage.a"}


def test_there_are_lines_of_the_largest_groups():
    n = 5 * (MOST_GROUPS + 3) + 2
    groups = [f"g{at % (MOST_GROUPS + 3):02d}" for at in range(n)]
    names = [line.name for line in group_lines(judged(n=n), groups) if line.name.startswith("group_coverage")]
    assert len(names) == MOST_GROUPS
    assert names[:2] == ["group_coverage.g00", "group_coverage.g01"]  # of six rows, and not of five
