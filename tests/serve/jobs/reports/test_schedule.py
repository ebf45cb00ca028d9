"""When audits are due."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from demur.audit.periods import last_boundary, next_boundary
from demur.serve.config.audits import AuditConfig
from demur.serve.jobs.reports.schedule import SETTLING, plan_due
from tests.serve.web.audit.traffic import config_of

HOUR = timedelta(hours=1)


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "hours", "boundary"),
    [
        ("2026-11-21T00:00:00", 24, "2026-11-21T00:00"),  # the moment itself has been reached
        ("2026-11-20T23:59:59.999999", 24, "2026-11-20T00:00"),
        ("2026-11-21T18:31:00", 6, "2026-11-21T18:00"),
        ("2026-11-21T18:31:00", 0.25, "2026-11-21T18:30"),
        ("2026-11-21T18:31:00", 24 * 7, "2026-11-16T00:00"),  # a Monday
        ("2026-11-16T00:00:00", 24 * 7, "2026-11-16T00:00"),
    ],
)
def test_boundaries_do_not_depend_on_when_the_service_started(now, hours, boundary):
    assert last_boundary(at(now), hours * HOUR) == at(boundary)
    assert next_boundary(at(now), hours * HOUR) == at(boundary) + hours * HOUR


@pytest.mark.parametrize(
    ("told", "hours"), [({}, 24), ({"every_hours": "7d"}, 168), ({"every_hours": "30m"}, 0.5), ({"every_hours": 6}, 6)]
)
def test_lengths_of_time_are_numbers_or_texts(told, hours):
    assert AuditConfig.model_validate(told).every == hours * HOUR


@pytest.mark.parametrize("told", [{"every_hours": "often"}, {"every_hours": "1m"}, {"window_days": 0}, {"keep": 3}])
def test_what_is_no_schedule_is_refused(told):
    with pytest.raises(ValidationError):
        AuditConfig.model_validate(told)


def test_a_window_is_told_in_days():
    config = AuditConfig.model_validate({"window_days": "36h", "keep_days": "90d"})
    assert (config.window_days, config.keep_days) == (1.5, 90)
    assert config.words == "every model is audited every 24 hours for the last 36 hours; reports are kept for 90 days"
    assert "when somebody asks" in AuditConfig(every_hours=None).words


def test_each_model_is_due_once_a_period(database):
    config = config_of("digits", "letters", audit={"every_hours": 6})
    midnight = at("2031-01-01T00:00")  # in the future: the schedule begins now

    def planned(now):
        with database.transaction() as connection:
            return [(run.model, run.until) for run in plan_due(connection, config, now)]

    assert [until for _, until in planned(midnight)] == [midnight - 6 * HOUR] * 2  # not all may be written yet
    assert planned(midnight + SETTLING) == [("digits", midnight), ("letters", midnight)]
    assert planned(midnight + 5 * HOUR) == []
    late = midnight + 30 * HOUR  # after a downtime one is due, and not four
    assert planned(late + HOUR) == [("digits", late), ("letters", late)]
    with database.transaction() as connection:
        assert plan_due(connection, config_of("digits", audit={"every_hours": None}), late + 30 * HOUR) == []
