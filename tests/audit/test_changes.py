"""One report held against another."""

from datetime import UTC, datetime, timedelta
from math import isnan, nan

import pytest
from uuid_utils.compat import uuid7

from demur.audit.changes import Apart, compared
from demur.audit.state.reports import Figure, LabelCount, Report, ReportExtent, Summary

DAY = timedelta(days=1)
START = datetime(2026, 11, 16, tzinfo=UTC)


def figure(name, value, low=nan, high=nan):
    return Figure(name=name, words=name, value=value, low=low, high=high)


def report(at=START, days=7, **changes):
    values = {
        "verdict": "kept",
        "why": "",
        "max_risk": 0.02,
        "figures": [figure("risk", 0.01, 0.005, 0.015), figure("coverage", 0.8)],
        "labels": [LabelCount(name="answered", records=100, labelled=10)],
        "artifacts": {"a": 100},
    }
    return Report(
        id=uuid7(),
        extent=ReportExtent(model="digits", since=at - days * DAY, until=at, as_of=at),
        planned=True,
        made_by="schedule",
        made_at=at,
        command="",
        version="",
        summary=Summary(**{**values, **changes}),
        rows_at=None,
        previous_id=None,
    )


@pytest.mark.parametrize(
    ("low", "high", "intervals"),
    [
        (0.016, 0.03, Apart.APART),
        (0.015, 0.03, Apart.OVERLAP),  # they touch
        (0.001, 0.004, Apart.APART),
        (0.001, 0.03, Apart.OVERLAP),
        (nan, 0.03, Apart.UNKNOWN),
    ],
)
def test_intervals(low, high, intervals):
    now = report(figures=[figure("risk", 0.02, low, high)])
    found = compared(now, report())
    assert [change.name for change in found.figures] == ["risk", "coverage"]
    assert found.figures[0].intervals is intervals
    assert found.figures[0].difference == pytest.approx(0.01)
    assert isnan(found.figures[1].difference)  # it is not measured any more, and that shows
    assert found.figures[1].intervals is Apart.UNKNOWN


def test_what_else_changed():
    now = report(
        START + DAY,
        verdict="broken",
        max_risk=0.01,
        labels=[LabelCount(name="answered", records=100, labelled=5), LabelCount(name="held", records=0, labelled=0)],
        artifacts={"a": 60, "b": 40},
    )
    found = compared(now, report(days=8))
    assert found.verdict_changed
    assert found.promise_changed
    assert found.lengths_differ
    assert found.common == 6 * DAY
    assert found.labels[0].difference == pytest.approx(-0.05)
    assert isnan(found.labels[1].difference)
    assert [(one.name, one.now, one.then) for one in found.artifacts] == [("a", 60, 100), ("b", 40, 0)]


def test_two_alike():
    now, then = report(START + 30 * DAY, max_risk=nan), report(max_risk=nan)
    found = compared(now, then)
    assert (found.verdict_changed, found.promise_changed, found.lengths_differ) == (False, False, False)
    assert found.common == timedelta(0)
