"""Reports that are kept, and audits that are to be made, in a real database."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isnan, nan

import pytest
from uuid_utils.compat import uuid7

from demur.audit.report.judgement import PromiseVerdict
from demur.audit.state import reports, runs
from demur.audit.state.reports import Figure, LabelCount, NewReport, ReportExtent, ReportNotFound, Summary
from demur.audit.state.runs import MOST_ATTEMPTS, RunLost, RunStatus

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
DAY = timedelta(days=1)
WEEK = 7 * DAY
LONG_AGO = "update audit_schedules set begun_at = '2020-01-01'"

RISK = Figure(name="risk", words="wrong among the answered", value=0.012, low=0.004, high=0.03)
SUMMARY = Summary(
    verdict="kept",
    why="at most 2% was promised, and 1.2% was wrong",
    max_risk=0.02,
    figures=[RISK, Figure(name="ece", words="calibration error", value=nan, low=nan, high=nan, share=False)],
    labels=[LabelCount(name="answered", records=900, labelled=40), LabelCount(name="held", records=100, labelled=90)],
    artifacts={"digits-1": 1000},
)


def new_report(until=MONDAY, **changes):
    extent = ReportExtent(model=changes.pop("model", "digits"), since=until - WEEK, until=until, as_of=until + DAY)
    values = {
        "extent": extent,
        "planned": True,
        "made_by": "schedule",
        "command": "demur audit",
        "version": "0.1.0",
        "summary": SUMMARY,
        "document": '{"a":  1.50, "none": null}',
        "html": "<!doctype html><p>ünïcode &amp; more</p>",
    }
    return NewReport(**{**values, **changes})


def kept(database, *new):
    with database.transaction() as connection:
        return [reports.store(connection, one) for one in new]


def test_a_report_comes_back_as_it_was_stored(database):
    (id,) = kept(database, new_report(rows_at="s3://bucket/rows.parquet"))
    with database.transaction() as connection:
        found = reports.report(connection, id)
        assert reports.document_of(connection, id) == '{"a":  1.50, "none": null}'  # the very bytes
        assert reports.html_of(connection, id) == "<!doctype html><p>ünïcode &amp; more</p>"
        for read in (reports.report, reports.document_of, reports.html_of):
            with pytest.raises(ReportNotFound):
                read(connection, uuid7())
    assert found.extent == new_report().extent
    assert (found.planned, found.made_by, found.previous_id) == (True, "schedule", None)
    assert found.rows_at == "s3://bucket/rows.parquet"
    assert found.summary.figures[0] == RISK
    assert isnan(found.summary.figures[1].value)
    assert not found.summary.figures[1].known
    assert (found.summary.records, found.summary.labelled) == (1000, 130)
    assert replace(found.summary, figures=SUMMARY.figures) == SUMMARY


def test_each_is_compared_with_the_last_one_of_its_kind(database):
    asked = {"planned": False, "made_by": "ada"}
    first, other, by_hand, second, late = kept(
        database,
        new_report(MONDAY),
        new_report(MONDAY, model="letters"),
        new_report(MONDAY + DAY / 2, **asked),
        new_report(MONDAY + DAY),
        new_report(MONDAY + DAY / 4, **asked),  # about an earlier range than others that are there
    )
    with database.transaction() as connection:
        before = {id: reports.report(connection, id).previous_id for id in (first, other, by_hand, second, late)}
        assert before == {first: None, other: None, by_hand: first, second: first, late: first}
        newest = [report.id for report in reports.listed(connection, model="digits", limit=10)]
        assert newest == [second, by_hand, late, first]
        assert [r.id for r in reports.listed(connection, model="digits", limit=1, offset=1)] == [by_hand]
        assert [r.id for r in reports.listed(connection, planned=True, until=MONDAY, limit=10)] == [other, first]
        assert [report.id for report in reports.latest(connection)] == [second, other]


def test_reports_are_kept_as_long_as_is_said(database):
    old, young = kept(database, new_report(MONDAY), new_report(MONDAY + DAY))
    with database.transaction() as connection:
        connection.execute("update audit_reports set made_at = made_at - interval '10 days' where id = %s", (old,))
        assert reports.forget(connection, keep_days=11) == []
        assert [report.id for report in reports.forget(connection, keep_days=9)] == [old]
        assert reports.report(connection, young).previous_id is None


def planned(database, until, models=("digits",)):
    with database.transaction() as connection:
        return runs.plan(connection, models, until=until, window=WEEK)


@pytest.fixture
def on_schedule(database):
    """Models that have been on schedule for long."""
    planned(database, MONDAY, ["digits", "letters"])
    with database.transaction() as connection:
        connection.execute(LONG_AGO)
    return database


def test_a_schedule_begins_with_the_next_boundary(database):
    assert planned(database, datetime.now(UTC) - timedelta(minutes=1)) == []
    (run,) = planned(database, until := datetime.now(UTC) + timedelta(minutes=1))
    assert (run.model, run.since, run.until) == ("digits", until - WEEK, until)
    assert (run.status, run.asked_by) == (RunStatus.WAITING, "schedule")


def test_what_is_due_is_planned_once_by_many(on_schedule):
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: planned(on_schedule, MONDAY, ["digits", "letters"]), range(12)))
    assert sorted(run.model for batch in made for run in batch) == ["digits", "letters"]
    assert planned(on_schedule, MONDAY - DAY) == []  # a replica whose clock is behind


def test_after_a_long_time_one_is_planned_and_what_waited_is_overtaken(on_schedule):
    (waited,) = planned(on_schedule, MONDAY)
    (late,) = planned(on_schedule, MONDAY + 10 * DAY)
    assert (late.since, late.until) == (MONDAY + 3 * DAY, MONDAY + 10 * DAY)
    with on_schedule.transaction() as connection:
        assert runs.run_of(connection, waited.id).status is RunStatus.OVERTAKEN
        taken = runs.take(connection, lease_seconds=60)
        assert (taken.id, taken.attempts) == (late.id, 1)
        assert runs.take(connection, lease_seconds=60) is None
        assert [run.id for run in runs.latest_runs(connection, limit=10)] == [late.id]


def asked(database, model="digits", by="ada", until=MONDAY, **how):
    with database.transaction() as connection:
        return runs.ask(connection, model, since=MONDAY - DAY, until=until, asked_by=by, **how)


def test_asking_twice_is_asking_once_and_people_come_first(on_schedule):
    planned(on_schedule, MONDAY)
    first = asked(on_schedule)
    assert asked(on_schedule, by="ben").id == first.id
    with on_schedule.transaction() as connection:
        assert runs.take(connection, lease_seconds=60).id == first.id
        assert runs.take(connection, lease_seconds=60).planned


def test_another_range_is_another_audit_while_the_first_is_open(database):
    first = asked(database)
    later = asked(database, until=MONDAY - DAY / 2)
    assert later.id != first.id
    assert (later.since, later.until) == (MONDAY - DAY, MONDAY - DAY / 2)
    assert asked(database, until=MONDAY - DAY / 2).id == later.id
    assert asked(database, until=MONDAY - DAY / 3, any_range=True).id == first.id  # a button that was pressed twice


def test_only_so_many_audits_of_a_model_are_open(database):
    for hours in range(runs.MOST_ASKED):
        asked(database, until=MONDAY - timedelta(hours=hours))
    with pytest.raises(runs.TooManyAsked, match=r"20 audits of 'digits' .* ask again when some are done"):
        asked(database, until=MONDAY - timedelta(minutes=1))
    assert asked(database).until == MONDAY  # one that is open is still returned
    assert asked(database, model="letters").model == "letters"


def test_of_many_who_look_one_takes_it(on_schedule):
    asked(on_schedule)

    def take(_):
        with on_schedule.transaction() as connection:
            return runs.take(connection, lease_seconds=60)

    with ThreadPoolExecutor(6) as pool:
        assert sum(run is not None for run in pool.map(take, range(12))) == 1


def test_a_run_whose_lease_ran_out_is_taken_anew_and_the_former_holder_changes_nothing(on_schedule):
    asked(on_schedule)
    with on_schedule.transaction() as connection:
        former = runs.take(connection, lease_seconds=60)
        runs.keep(connection, former, stage="reading", share=0.5, lease_seconds=-1)
    with on_schedule.transaction() as connection:
        present = runs.take(connection, lease_seconds=60)
        assert (present.id, present.attempts, present.stage) == (former.id, 2, None)
        for change in (
            lambda: runs.keep(connection, former, stage="reading", share=0.9, lease_seconds=60),
            lambda: runs.nothing(connection, former, "nothing"),
            lambda: runs.failed(connection, former, "a fault"),
        ):
            with pytest.raises(RunLost, match="in other hands"):
                change()
    with pytest.raises(RunLost), on_schedule.transaction() as connection:
        runs.done(connection, former, reports.store(connection, new_report()))
    with on_schedule.transaction() as connection:
        assert reports.listed(connection, limit=1) == []  # thrown away with its transaction
        id = reports.store(connection, new_report())
        runs.done(connection, present, id)
        found = runs.run_of(connection, present.id)
        assert (found.status, found.report_id) == (RunStatus.DONE, id)


def test_a_failure_is_told_and_tried_again_until_it_is_given_up(on_schedule):
    asked(on_schedule)
    for attempt in range(1, MOST_ATTEMPTS + 1):
        with on_schedule.transaction() as connection:
            run = runs.take(connection, lease_seconds=60)
            assert run.attempts == attempt
            assert runs.failures(connection) == ({"digits": attempt - 1} if attempt > 1 else {})
            runs.failed(connection, run, "the database went away")
        with on_schedule.transaction() as connection:
            assert runs.take(connection, lease_seconds=60) is None  # not before its pause is over
            (shown,) = runs.latest_runs(connection, limit=10)
            assert shown.error == "the database went away"
            connection.execute("update audit_runs set try_at = clock_timestamp()")
    assert shown.status is RunStatus.FAILED
    with on_schedule.transaction() as connection:
        assert runs.failures(connection) == {"digits": MOST_ATTEMPTS}
    again = asked(on_schedule)  # a new one, as nothing is open any more
    with on_schedule.transaction() as connection:
        runs.done(connection, runs.take(connection, lease_seconds=60), reports.store(connection, new_report()))
        assert runs.failures(connection) == {}
        assert runs.latest_runs(connection, limit=10) == []
        assert runs.run_of(connection, again.id).status is RunStatus.DONE


def test_a_run_that_kills_whoever_takes_it_is_given_up(on_schedule):
    run = asked(on_schedule)
    for _ in range(MOST_ATTEMPTS):
        with on_schedule.transaction() as connection:
            assert runs.take(connection, lease_seconds=-1).id == run.id
    with on_schedule.transaction() as connection:
        assert runs.take(connection, lease_seconds=60) is None
        found = runs.run_of(connection, run.id)
    assert found.status is RunStatus.FAILED
    assert "without a word" in found.error


def test_nothing_to_audit_is_no_failure(on_schedule):
    asked(on_schedule)
    with on_schedule.transaction() as connection:
        runs.nothing(connection, runs.take(connection, lease_seconds=60), "there are no records")
        (shown,) = runs.latest_runs(connection, limit=10)
        assert (shown.status, shown.error) == (RunStatus.NOTHING, "there are no records")
        assert runs.failures(connection) == {}


def test_old_runs_are_forgotten_and_the_last_planned_one_stays(on_schedule):
    first, second = planned(on_schedule, MONDAY), planned(on_schedule, MONDAY + DAY)
    with on_schedule.transaction() as connection:
        runs.nothing(connection, runs.take(connection, lease_seconds=60), "there are no records")
        connection.execute("update audit_runs set ended_at = ended_at - interval '1 year'")
        assert runs.forget_runs(connection) == 1
        assert runs.run_of(connection, first[0].id) is None
        assert runs.run_of(connection, second[0].id) is not None
    assert planned(on_schedule, MONDAY + DAY) == []


def test_the_verdicts_are_those_of_a_report():
    assert tuple(verdict.value for verdict in PromiseVerdict) == reports.VERDICTS


def test_the_summary_is_json(database):
    (id,) = kept(database, new_report())
    with database.transaction() as connection:
        (told,) = connection.execute("select summary::text from audit_reports where id = %s", (id,)).fetchone()
    assert json.loads(told)["figures"][1]["value"] is None
