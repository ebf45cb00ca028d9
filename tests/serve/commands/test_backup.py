"""Everything is lost, and comes back: records, inputs, outcomes, cases, reports, artifacts and who promoted them."""

import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import yaml

from demur.audit.report.audit import Audit
from demur.audit.report.plan import Settings
from demur.audit.state import reports
from demur.calibration_store.artifact import ModelIdentity, pack
from demur.calibration_store.store import ArtifactStore
from demur.policies.selector import Selector
from demur.policies.threshold import Threshold
from demur.serve.cli import main
from demur.serve.contract.commit import Writing
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.serve.gateway.journal import commit
from demur.serve.jobs.reports import making
from demur.uncertainty.platt import PlattMap
from demur.uncertainty.scores import SCORES
from tests.conftest import entry, new_case, resolve
from tests.serve.web.audit.stored import a_fortnight
from tests.serve.web.audit.traffic import CLASSIFIER, write_traffic

pytestmark = pytest.mark.slow

LATE = datetime.now(UTC) - timedelta(hours=2)


@pytest.fixture
def folder(monkeypatch):
    """A working folder with a short name, because of the socket, and a service's configuration in it."""
    path = Path(tempfile.mkdtemp(prefix="demur-"))
    (path / "demur.yaml").write_text(yaml.safe_dump({"models": {"digits": CLASSIFIER}}))
    monkeypatch.chdir(path)
    monkeypatch.delenv("DEMUR_CONFIG", raising=False)
    monkeypatch.setattr(making, "Settings", partial(Settings, replicates=99))
    monkeypatch.setattr(Audit, "as_html", lambda audit: audit.document["command"])  # takes a second
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def demur(monkeypatch, capsys):
    """Run a command; return what it printed, or the sentence that it ended with."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["demur", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr().out
        return end.value.code if isinstance(end.value.code, str) else printed

    return run


def elsewhere(*words):
    """What a command says that runs as a process of its own."""
    done = subprocess.run([sys.executable, "-P", "-m", "demur", *words], capture_output=True, text=True)
    return done.stdout + done.stderr


@contextmanager
def database_of(folder):
    with EmbeddedPostgres(folder / "var") as server:
        database = open_database(server.dsn)
        try:
            yield database
        finally:
            database.close()


def tables(database):
    """Every row of every table, in an order of its own."""
    with database.transaction() as connection:
        names = connection.execute(
            "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
        ).fetchall()
        return {
            name: sorted(str(row) for row in connection.execute(f'select * from "{name}"').fetchall())
            for (name,) in names
        }


def promoted(folder, limits):
    """Artifacts that were promoted one after the other; the history of that."""
    store = ArtifactStore(str(folder / "var/artifacts"))
    for limit in limits:
        selector = Selector(
            scores={"softmax_response": SCORES["softmax_response"]()},
            confidence_score="softmax_response",
            calibrator=PlattMap(a=-1.0, b=0.0),
            policy=Threshold(limit=limit, meaning="the given limit"),
        )
        files = pack(
            selector,
            model="digits",
            identity=ModelIdentity(checkpoint="digits", fingerprint="f" * 64, labels=("1", "7")),
            facts={"created_at": "2026-11-21T00:00:00", "n_fitted": 0, "data": {"file": "none"}, "report": {}},
        )
        store.save("digits", files)
        store.promote("digits", files.name, by="ada", why=f"limit {limit}", clock=lambda: LATE)
    return store.history("digits")


def test_what_was_written_before_a_backup_is_there_after_everything_is_lost(folder, demur):
    history = promoted(folder, (0.1, 0.2, 0.3))
    with database_of(folder) as database:
        write_traffic(database, "digits", n=200, wrong=10, first=LATE)
        held = [entry(model="digits") for _ in range(20)]
        commit(database, [Writing(one, new_case(one)) for one in held])
        kept = a_fortnight(database)
        with database.transaction() as connection:
            case_id = connection.execute("select id from review_items order by id limit 1").fetchone()[0]
            resolve(connection, case_id, "ada", "7")
            before = [(reports.document_of(connection, one), reports.html_of(connection, one)) for one in kept]
        end = (LATE + timedelta(hours=1)).isoformat()
        extent = ("--since", LATE.isoformat(), "--until", end, "--as-of", end)
        asked = ("audit", *extent, "--json", "-")
        audit = demur(*asked)

        acknowledged, stop = [], threading.Event()

        def write():
            while not stop.is_set():
                one = entry(model="digits")
                commit(database, [Writing(one, new_case(one))])
                acknowledged.append(one.record.id)
                stop.wait(0.005)

        writing = threading.Thread(target=write)
        writing.start()
        try:
            while len(acknowledged) < 50:
                stop.wait(0.01)
            known = list(acknowledged)
            assert demur("backup", folder / "kept").startswith("kept in")
        finally:
            stop.set()
            writing.join()
        whole = tables(database)
        assert len(acknowledged) > len(known)

    shutil.rmtree(folder / "var")
    assert elsewhere("restore", "kept").startswith("restored 2")

    store = ArtifactStore(str(folder / "var/artifacts"))
    assert store.history("digits") == history
    assert [store.load("digits", one).selector.policy.limit for one in store.names("digits")]
    with database_of(folder) as database:
        found = tables(database)
        with database.transaction() as connection:
            after = [(reports.document_of(connection, one), reports.html_of(connection, one)) for one in kept]
            records = {row[0] for row in connection.execute("select id from records").fetchall()}
            unheld = connection.execute(
                "select count(*) from records where action = 'review'"
                " and id not in (select record_id from review_items)"
            ).fetchone()
        assert demur(*asked) == audit
    assert after == before
    assert {one.record.id for one in held} | set(known) <= records
    assert unheld == (0,)  # a record and its case were written together, and are there together
    assert set(found) == set(whole)
    for name, rows in found.items():
        assert set(rows) <= set(whole[name])  # nothing that was not there
        if name not in ("records", "payloads", "review_items", "review_events"):
            assert rows == whole[name]


def test_a_backup_is_checked_before_anything_is_changed(folder, demur):
    promoted(folder, (0.1,))
    with database_of(folder):
        pass
    assert demur("backup", "kept").startswith("kept in")
    assert "is there already" in demur("backup", "kept")
    assert "there are artifacts in" in demur("restore", "kept")
    shutil.rmtree(folder / "var/artifacts")
    assert "is in use already; name an empty one" in demur("restore", "kept")
    shutil.rmtree(folder / "var")  # of a server that this process remembers
    dump = folder / "kept/database.dump"
    content = dump.read_bytes()
    dump.write_bytes(content[:-1] + b"x")
    assert "database.dump is not what was kept" in demur("restore", "kept")
    dump.write_bytes(content)
    told = (folder / "kept/backup.json").read_text()
    (folder / "kept/backup.json").write_text(told.replace('"traffic",\n      1\n', '"attic",\n      1\n'))
    assert "of a newer demur" in demur("restore", "kept")
    (folder / "kept/backup.json").write_text("{")
    assert "is no backup" in demur("restore", "kept")
    (folder / "kept/backup.json").write_text(told)
    assert elsewhere("restore", "kept").startswith("restored 0 records")


def test_nothing_is_backed_up_where_nothing_is(folder, demur):
    with EmbeddedPostgres(folder / "var"):
        assert "holds nothing of demur" in demur("backup", "kept")
    assert not (folder / "kept").exists()


def test_a_password_is_in_no_command_line(folder, demur):
    content = yaml.safe_load((folder / "demur.yaml").read_text())
    content["database"] = "postgresql://ada:secret@127.0.0.1:9/demur"
    (folder / "demur.yaml").write_text(yaml.safe_dump(content))
    said = demur("backup", "kept")
    assert "127.0.0.1:9/demur" in said
    assert "secret" not in said
