"""Audits made in processes of their own, with a real database."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import psutil
import pyarrow.parquet as pq
import pytest

from demur.audit.state import reports, runs
from demur.audit.state.alarms import in_force
from demur.audit.state.runs import RunStatus
from demur.serve.config.monitor import MonitorConfig
from demur.serve.jobs.audits import jobs
from demur.serve.jobs.reports.maker import AuditMaker
from tests.serve.web.audit.traffic import config_of, write_traffic

START = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)


@pytest.fixture
def config(database, tmp_path):
    return config_of("digits", "letters", artifacts=str(tmp_path), database=database.dsn)


def ask(database, model="digits"):
    with database.transaction() as connection:
        return runs.ask(connection, model, since=START, until=START + timedelta(hours=2), asked_by="ada")


def found(database, run):
    with database.transaction() as connection:
        return runs.run_of(connection, run.id)


@pytest.mark.slow
def test_an_audit_is_made_and_kept(database, config):
    write_traffic(database, "digits", n=200, wrong=10, first=START)
    run, empty = ask(database), ask(database, "letters")
    assert AuditMaker(config, database).make_due() == 2
    done, nothing = found(database, run), found(database, empty)
    assert done.status is RunStatus.DONE, done.error
    with database.transaction() as connection:
        report = reports.report(connection, done.report_id)
        document = json.loads(reports.document_of(connection, report.id))
        html = reports.html_of(connection, report.id)
    assert (report.made_by, report.planned, report.extent.model) == ("ada", False, "digits")
    assert report.summary.figures[0].value == pytest.approx(0.05)
    assert report.summary.figures[0].low < 0.05 < report.summary.figures[0].high
    assert "--as-of" in report.command
    assert document["model"] == "digits"
    assert html.startswith("<!doctype html>")
    assert nothing.status is RunStatus.NOTHING
    assert "there are no records of 'letters'" in nothing.error


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "verdict"), [(40, "broken"), (2, "kept")])
def test_a_scheduled_audit_raises_an_alarm_where_answers_go_wrong_and_is_quiet_where_they_do_not(
    database, tmp_path, wrong, verdict
):
    config = config_of("digits", artifacts=str(tmp_path), database=database.dsn)
    watched = config.models["digits"].model_copy(update={"monitor": MonitorConfig(max_risk=0.05)})
    config = config.model_copy(update={"models": {"digits": watched}})
    with database.transaction() as connection:  # on schedule since before
        runs.plan(connection, ["digits"], until=START, window=timedelta(hours=1))
        connection.execute("update audit_schedules set begun_at = %s", (START - timedelta(days=9),))
    for day, errors in enumerate((2, wrong)):  # the service goes wrong, or not, in the second hour
        write_traffic(database, "digits", n=400, wrong=errors, first=START + timedelta(hours=day))
        with database.transaction() as connection:
            until = START + timedelta(hours=day + 1)
            assert len(runs.plan(connection, ["digits"], until=until, window=timedelta(hours=1))) == 1
        AuditMaker(config, database).make_due()
    with database.transaction() as connection:
        latest, before = reports.listed(connection, model="digits", limit=2)
        found = in_force(connection)
    assert (before.summary.verdict, latest.summary.verdict) == ("kept", verdict)
    assert [alarm.kind for alarm in found] == (["audit"] if verdict == "broken" else [])
    assert all(str(latest.id) == alarm.evidence["report"] for alarm in found)


@pytest.mark.slow
def test_rows_are_kept_beside_a_report_and_go_with_it(database, tmp_path):
    told = {"rows": str(tmp_path / "rows"), "every_outcome_known": ["digits"]}
    config = config_of("digits", artifacts=str(tmp_path), database=database.dsn, audit=told)
    write_traffic(database, "digits", n=30, wrong=3, first=START)
    run = ask(database)
    AuditMaker(config, database).make_due()
    with database.transaction() as connection:
        report = reports.report(connection, found(database, run).report_id)
        connection.execute("update audit_reports set made_at = made_at - interval '10 years'")
    assert "--every-outcome-known" in report.command
    assert report.rows_at == str(tmp_path / f"rows/digits/{report.id}.parquet")
    assert pq.read_table(report.rows_at).num_rows == 30
    (forgetting,) = [job for job in jobs(config, database) if job.name == "forgetting audits"]
    forgetting.do()
    assert list((tmp_path / "rows/digits").iterdir()) == []
    with database.transaction() as connection:
        assert reports.listed(connection, limit=1) == []
    forgetting.do()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "import sys; print('at work', file=sys.stderr); sys.exit('SomeError: the disk is full')",
            "SomeError: the disk",
        ),
        ("import os; os.kill(os.getpid(), 9)", "ended with status -9"),
        ("import time; time.sleep(60)", "longer than 0.002 minutes (audit.max_minutes)"),
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
    ],
)
def test_what_went_wrong_is_noted_and_it_is_tried_again(database, script, said):
    config = config_of("digits", database=database.dsn, audit={"max_minutes": 0.002 if "sleep" in script else 1})
    run = ask(database)
    assert AuditMaker(config, database, worker=(sys.executable, "-c", script)).make_due() == 1
    after = found(database, run)
    assert after.status is RunStatus.WAITING
    assert said in after.error
    assert after.try_at > datetime.now(UTC)


def test_a_run_that_another_has_taken_is_left_to_it(database):
    config = config_of("digits", database=database.dsn)
    run = ask(database)
    assert AuditMaker(config, database, worker=(sys.executable, "-c", "import sys; sys.exit(3)")).make_due() == 1
    after = found(database, run)
    assert (after.status, after.error) == (RunStatus.RUNNING, None)


@pytest.mark.slow
def test_the_worker_ends_with_whoever_started_it(tmp_path):
    """However that ends: a service that is killed leaves nobody behind who works on its database."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import threading, time\\n"
        "from demur.serve.web.audit.reports import worker\\n"
        "threading.Thread(target=worker._end_with_the_input).start()\\n"
        "print(1, flush=True); time.sleep(60)'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE)
    child = psutil.Process(int(parent.stdout.readline()))
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs([child], timeout=20)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
