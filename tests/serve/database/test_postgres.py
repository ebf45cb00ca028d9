import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import unquote

import pytest
from psycopg import connect

from demur.serve.database.opening import open_database
from demur.serve.database.postgres import (
    LONGEST_PATH,
    EmbeddedDatabaseFailed,
    EmbeddedPostgres,
    clear_stale_lock,
    is_alive,
)
from demur.traffic.database import DatabaseUnavailable

USER = """
import sys, time
from pathlib import Path
from urllib.parse import unquote
from demur.serve.database.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture
def data():
    folder = Path(tempfile.mkdtemp(prefix="demur-test-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def server_pid(data):
    return int((data / "postgres/postmaster.pid").read_text().split("\n")[0])


@pytest.mark.slow
def test_the_last_user_stops_the_server(data):
    first, second = EmbeddedPostgres(data), EmbeddedPostgres(data)
    pid = server_pid(data)
    first.close()
    first.close()
    assert is_alive(pid)
    second.close()
    assert not is_alive(pid)


GONE = """
import shutil, sys
from pathlib import Path
from demur.serve.database.postgres import EmbeddedPostgres
with EmbeddedPostgres(Path(sys.argv[1])):
    pass
shutil.rmtree(sys.argv[1])
"""


@pytest.mark.slow
def test_a_folder_that_was_deleted_is_not_made_anew_at_the_end(data):
    subprocess.run([sys.executable, "-c", GONE, data], check=True, capture_output=True)
    assert not data.exists()


@pytest.mark.slow
def test_a_user_that_was_killed_is_not_counted(data):
    other = subprocess.Popen([sys.executable, "-c", USER, data], stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"up\n"
    with EmbeddedPostgres(data):
        pid = server_pid(data)
        other.kill()
        other.wait()
        other.stdout.close()
    assert not is_alive(pid)


@pytest.mark.slow
def test_a_server_that_was_killed_comes_back_to_the_same_pool(data):
    said = []
    with EmbeddedPostgres(data, say=said.append) as server:
        database = open_database(server.dsn)
        killed = server_pid(data)
        os.kill(killed, signal.SIGKILL)
        deadline = time.monotonic() + 10
        with pytest.raises(DatabaseUnavailable), database.transaction() as connection:  # noqa: PT012
            while time.monotonic() < deadline:
                connection.execute("select 1")
        deadline = time.monotonic() + 60
        while is_alive(killed) and time.monotonic() < deadline:  # its sockets are gone seconds before it is, at worst
            time.sleep(0.01)
        assert not is_alive(killed)
        server.keep_running()
        assert any("died" in line for line in said)
        with database.transaction() as connection:
            assert connection.execute("select count(*) from records").fetchone() == (0,)
        database.close()


def test_a_stale_lock_is_removed_and_said(tmp_path):
    (tmp_path / "postmaster.pid").write_text("1\n/somewhere\n")  # alive, but no PostgreSQL
    said = []
    clear_stale_lock(tmp_path, said.append)
    assert "stale lock" in said[0]
    assert not (tmp_path / "postmaster.pid").exists()
    clear_stale_lock(tmp_path, said.append)
    assert len(said) == 1


def test_a_path_that_is_too_long_for_its_socket_is_refused(tmp_path):
    with pytest.raises(EmbeddedDatabaseFailed, match=r"too long for a socket .* set `data` to one of at most"):
        EmbeddedPostgres(tmp_path / ("x" * 100))


@pytest.mark.slow
def test_the_longest_path_has_its_socket_in_the_folder_of_the_database(data):
    deep = data.resolve() / ("x" * (LONGEST_PATH - len("/postgres") - len(str(data.resolve())) - 1))
    with EmbeddedPostgres(deep) as server:
        assert list((deep / "postgres").glob(".s.PGSQL.*"))
        assert f"host={deep / 'postgres'}" in unquote(server.dsn)


@pytest.mark.slow
def test_folders_above_are_not_opened_for_others(data):
    """Where root starts it, another user runs it, who must get through, and need not look around."""
    inside = data / "inside"
    inside.mkdir(mode=0o700)
    before = {path: stat.S_IMODE(path.stat().st_mode) for path in inside.parents}
    with EmbeddedPostgres(inside) as server:
        assert stat.S_IMODE((inside / "postgres").stat().st_mode) == 0o700
        assert stat.S_IMODE(inside.stat().st_mode) & ~0o011 == 0o700
        for path, mode in before.items():
            assert stat.S_IMODE(path.stat().st_mode) & ~0o011 == mode & ~0o011
        with connect(server.dsn, autocommit=True) as connection:
            connection.execute("checkpoint")  # for which the server opens files by their whole path


@pytest.fixture
def package(data):
    """The class of the package that starts servers."""
    with EmbeddedPostgres(data) as server:
        return type(server._server)


@pytest.mark.parametrize("has_log", [True, False])
def test_a_server_that_is_slow_to_begin_is_waited_for(has_log, package, data, monkeypatch):
    """On a busy machine ten seconds may pass before it has written the file with its process, or its log."""
    start, asked = package.ensure_postgres_running, []

    def slow(server):
        asked.append(server)
        if len(asked) > 1:
            start(server)
        elif has_log:
            raise subprocess.TimeoutExpired("pg_ctl", 10)
        else:
            server.log.unlink(missing_ok=True)
            server.log.read_text()

    monkeypatch.setattr(package, "ensure_postgres_running", slow)
    with EmbeddedPostgres(data) as server:
        assert server.dsn
        assert len(asked) == 2


@pytest.mark.parametrize(
    ("log", "told"), [(True, ".*log says why"), (False, "Command 'pg_ctl' returned non-zero exit status 1")]
)
def test_a_server_that_cannot_start_is_not_waited_for(package, data, monkeypatch, log, told):
    def broken(server):
        server.log.touch() if log else server.log.unlink(missing_ok=True)
        raise subprocess.CalledProcessError(1, "pg_ctl")

    monkeypatch.setattr(package, "ensure_postgres_running", broken)
    with pytest.raises(EmbeddedDatabaseFailed, match=rf"does not start \(CalledProcessError\); {told}"):
        EmbeddedPostgres(data)
