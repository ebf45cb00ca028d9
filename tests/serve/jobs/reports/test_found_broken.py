import json

import pytest

from demur.audit.monitors.feeding import undo
from demur.audit.state.alarms import AlarmKind, AlarmNotFound, in_force
from demur.serve.jobs.reports.found_broken import tell_if_broken
from tests.serve.web.audit.stored import DAY, MONDAY, keep, new_report, summary

DOCUMENT = json.dumps(
    {
        "records": {"artifacts": {"digits-1": 9, "digits-2": 1}},
        "headline": {
            "judgements": [
                {"verdict": "kept", "artifacts": ["digits-1"]},
                {"verdict": "broken", "artifacts": ["digits-2"], "why": "between 3% and 5%"},
            ]
        },
    }
)


def report(at, verdict, **changes):
    return new_report(MONDAY + at * DAY, of=summary(verdict, 0.04), document=DOCUMENT, **changes)


def told(database, *new):
    """Store reports one after the other, each as the audit does it; return for each whether it raised an alarm."""
    raised = []
    for one in new:
        (id,) = keep(database, one)
        with database.transaction() as connection:
            raised.append(tell_if_broken(connection, id) is not None)
    return raised


def test_an_alarm_is_raised_when_a_promise_turns_out_broken_and_not_again_while_it_stays_so(database):
    verdicts = ["kept", "broken", "broken", "not enough evidence", "broken"]
    assert told(database, *(report(at, verdict) for at, verdict in enumerate(verdicts))) == [
        False, True, False, False, False,
    ]  # fmt: skip
    with database.transaction() as connection:
        (first,) = in_force(connection)
        assert (first.kind, first.artifact, first.action, first.acted_at) == (
            AlarmKind.AUDIT,
            "digits-2",
            "notify",
            None,
        )
        assert "of 2026-11-10 00:00 to 2026-11-17 00:00 UTC found a promise broken" in first.words
        assert [one["artifacts"] for one in first.evidence["judgements"]] == [["digits-2"]]
        undo(connection, first.id, by="ada", why="it was the camera")
        assert in_force(connection) == []
        with pytest.raises(AlarmNotFound, match="undone before, by ada"):
            undo(connection, first.id, by="bob", why="again")
    assert told(database, report(5, "broken"), report(6, "kept"), report(7, "broken")) == [False, False, True]


def test_what_somebody_asked_for_raises_none_and_hides_none(database):
    asked = report(1, "broken", planned=False, made_by="ada")
    assert told(database, report(0, "kept"), asked, report(2, "broken")) == [False, False, True]
