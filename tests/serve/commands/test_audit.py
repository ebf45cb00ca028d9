"""`demur audit`, as somebody runs it."""

import json
import shlex
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow.parquet as pq
import pytest
import yaml

from demur.audit.report.audit import Audit
from demur.audit.report.plan import Settings
from demur.audit.state import reports
from demur.serve.cli import main
from demur.serve.commands.terminal import out
from demur.serve.jobs.reports import making
from demur.traffic import log
from tests.serve.web.audit.traffic import CLASSIFIER, write_traffic

START = datetime.now(UTC) - timedelta(hours=5)


@pytest.fixture
def folder(tmp_path, database, monkeypatch):
    content = {"database": database.dsn, "artifacts": str(tmp_path / "artifacts"), "models": {"digits": CLASSIFIER}}
    (tmp_path / "demur.yaml").write_text(yaml.safe_dump(content))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    monkeypatch.setattr(out, "_width", 200)
    monkeypatch.setattr(making, "settled", lambda _, moment: moment)  # nobody else writes here
    monkeypatch.setattr(Audit, "as_html", lambda audit: f"<!doctype html>{audit.document['command']}")  # takes a second
    monkeypatch.setattr(making, "Settings", partial(Settings, replicates=99))
    return tmp_path


@pytest.fixture
def demur(monkeypatch, capsys):
    """Run a command; return its exit status, or the sentence that it ended with, and what it printed."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["demur", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return end.value.code or 0, printed.out, printed.err

    return run


def test_the_verdict_the_numbers_and_the_files(folder, demur, database):
    write_traffic(database, "digits", n=400, wrong=4, first=START)
    status, printed, _ = demur("audit", "--since", "1d", "--max-risk", "0.05", "--out", "report")
    assert status == 0
    for words in (
        "kept",
        "wrong among the answered",
        "1.00%",
        "95% interval",
        "answered",
        "now: Nothing has to be done",
    ):
        assert words in printed
    assert (folder / "report/digits.html").read_text().startswith("<!doctype html>")
    document = (folder / "report/digits.json").read_text()
    assert json.loads(document)["model"] == "digits"
    assert pq.read_table(folder / "report/digits.parquet").num_rows == 400
    with database.transaction() as connection:
        (stored,) = reports.listed(connection, limit=2)
    assert stored.summary.verdict == "kept"
    assert demur("audit", "--since", "1d", "--out", "report", "--no-store")[0] == 0
    with database.transaction() as connection:
        assert len(reports.listed(connection, limit=2)) == 1


@pytest.mark.parametrize(
    ("wrong", "max_risk", "status"),
    [(4, 0.05, 0), (60, 0.05, 3), (18, 0.05, 4)],
)
def test_a_check_for_ci(folder, demur, database, wrong, max_risk, status):
    write_traffic(database, "digits", n=400, wrong=wrong, first=START)
    words = ("audit", "--max-risk", str(max_risk))
    assert demur(*words)[0] == 0  # unless it is asked for
    assert demur(*words, "--check")[0] == status


def test_no_traffic_is_no_evidence(folder, demur):
    assert demur("audit")[0].startswith("demur: there are no records of 'digits'")
    assert demur("audit", "--check")[0] == 4


def test_the_command_that_it_names_makes_the_same_again(folder, demur, database):
    write_traffic(database, "digits", n=60, wrong=3, first=START)
    _, printed, _ = demur("audit", "--since", "1d", "--max-risk", "0.1", "--out", "first")
    (line,) = [line for line in printed.splitlines() if line.startswith("the same again: ")]
    words = shlex.split(line.removeprefix("the same again: "))
    assert words[0] == "demur"
    write_traffic(database, "digits", n=60, wrong=60, first=datetime.now(UTC))
    demur(*words[1:], "--out", "second")
    assert (folder / "first/digits.json").read_bytes() == (folder / "second/digits.json").read_bytes()


def test_what_becomes_known_later_does_not_change_it(folder, demur, database):
    write_traffic(database, "digits", n=120, wrong=9, first=START)
    ask = (
        "insert into review_items (id, record_id, kind, model, status, created_at, blind) select {id}, id, '{kind}',"
        " model, 'waiting', {at}, true from records {which} on conflict do nothing"
    )
    with database.transaction() as connection:  # every other one was drawn, and of these some are reviewed
        connection.execute("update records set label_probability = 0.5")
        connection.execute("delete from outcomes where id % 2 = 1")
        connection.execute("update outcomes set source = 'review'")
        which = "where id in (select record_id from outcomes)"
        connection.execute(ask.format(id="id", kind="spot_check", at="created_at", which=which))
        connection.execute("delete from outcomes where id % 6 = 0")
    _, printed, _ = demur("audit", "--since", "1d", "--max-risk", "0.1", "--out", "first")
    (line,) = [line for line in printed.splitlines() if line.startswith("the same again: ")]
    found = json.loads((folder / "first/digits.json").read_text())
    assert (found["labels"]["drawn"], found["labels"]["reviewed"]) == (60, 40)
    with database.transaction() as connection:
        ids = [row[0] for row in connection.execute("select id from records").fetchall()]
        for source in ("review", "complaint"):  # first words, corrections, complaints
            for record_id in ids:
                log.add_outcome(connection, record_id, label="1", source=source, author="eve")
        for kind, id in (("re_review", "gen_random_uuid()"), ("spot_check", "id")):
            connection.execute(ask.format(id=id, kind=kind, at="clock_timestamp()", which=""))
    again = shlex.split(line.removeprefix("the same again: "))[1:]
    demur(*again, "--out", "second")
    assert (folder / "first/digits.json").read_bytes() == (folder / "second/digits.json").read_bytes()
    assert (folder / "first/digits.html").read_bytes() == (folder / "second/digits.html").read_bytes()
    demur("audit", "--out", "third")  # as of now it is another one
    assert json.loads((folder / "third/digits.json").read_text())["labels"]["reviewed"] == 120


def test_it_begins_where_nothing_has_been_deleted(folder, demur, database):
    write_traffic(database, "digits", n=60, wrong=3, first=START)
    with database.transaction() as connection:
        connection.execute(
            "insert into forgotten_records (model, before, records, outcomes, cases) values ('digits', %s, 9, 9, 0)",
            (START + timedelta(seconds=40),),
        )

    def n(*words):
        demur("audit", *words)
        return json.loads((folder / "var/audit/digits.json").read_text())["records"]["n"]

    assert n() == 20
    assert n("--since", "1d") == 60  # what is left of it, where somebody asks for that


def test_outcomes_that_come_for_every_record_stand_for_themselves(folder, demur, database):
    write_traffic(database, "digits", n=60, wrong=3, first=START)
    with database.transaction() as connection:  # nobody would ever be asked, and one outcome has not come yet
        connection.execute("update records set label_probability = 0")
        connection.execute("delete from outcomes where id = (select max(id) from outcomes)")

    def risk(*words):
        printed = demur("audit", "--seed", "7", *words)[1]
        document = json.loads((folder / "var/audit/digits.json").read_text())
        assert document["method"]["seed"] == 7
        return document["estimates"][0]["value"], printed

    assert risk()[0] is None
    found, printed = risk("--every-outcome-known")
    assert found == pytest.approx(2 / 59)
    assert "--seed 7 --every-outcome-known" in printed


def test_numbers_alone_on_standard_output(folder, demur, database):
    write_traffic(database, "digits", n=60, wrong=3, first=START)
    status, printed, aside = demur("audit", "--json", "-")
    assert status == 0
    assert json.loads(printed)["model"] == "digits"
    assert printed == (folder / "var/audit/digits.json").read_text()
    assert "wrong among the answered" in aside


def test_kept_among_the_reports(folder, demur, database):
    write_traffic(database, "digits", n=60, wrong=3, first=START)
    _, printed, _ = demur("audit", "--store")
    with database.transaction() as connection:
        (report,) = reports.listed(connection, limit=2)
        document = reports.document_of(connection, report.id)
    assert f"kept: /audit/reports/{report.id}" in printed
    assert f"the same again: {report.command}" in printed
    assert document == (folder / "var/audit/digits.json").read_text()
    assert not report.planned


def test_again_and_again_until_ctrl_c(folder, demur, database, monkeypatch):
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 1:
            write_traffic(database, "digits", n=60, wrong=3, first=START)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    status, printed, _ = demur("audit", "--every", "6h", "--store")
    assert status == 0
    assert pauses == [6 * 3600] * 3
    assert printed.count("demur: there are no records of 'digits'") == 1  # and it went on
    assert printed.count("the next one at") == 3
    with database.transaction() as connection:
        assert len(reports.listed(connection, limit=10)) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "nobody"], "demur: there is no model 'nobody' in the configuration"),
        (["--since", "1d", "--until", "2d"], "demur: --since: the range must begin before it ends"),
        (["--as-of", "2d", "--until", "1d"], "demur: --until: the range must not end after --as-of"),
        (["--max-risk", "0"], "demur: --max-risk: name a share between 0 and 1"),
        (["--max-risk", "nan"], "demur: --max-risk: name a share between 0 and 1"),
        (["--every", "often"], "demur: --every: 'often' is not a length of time like 24h or 30m"),
        (["--every", "1m"], "demur: --every: '1m' is not a length of time like 24h or 30m, 15m at least"),
        (["--ray"], "demur: --ray goes with --parquet"),
        (["--every", "1h", "--check"], "demur: --check goes without --every"),
    ],
)
def test_a_problem_is_one_sentence(folder, demur, words, said):
    assert demur("audit", *words)[0].startswith(said)
