from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import psycopg
import pytest
from psycopg.errors import DivisionByZero

from demur.review import cases
from demur.serve.database.opening import MIGRATIONS, open_database
from demur.traffic import log
from demur.traffic.database import (
    ConnectionLost,
    Database,
    DatabaseUnavailable,
    Migration,
    UnknownSchema,
    described,
    migrate,
)
from tests.conftest import entry, find_shadow


def applied(database):
    with database.transaction() as connection:
        return connection.execute("select room, version from schema_migrations order by 1, 2").fetchall()


def test_many_processes_may_migrate_at_once(empty_dsn):
    with ThreadPoolExecutor(8) as pool:
        databases = list(pool.map(lambda _: open_database(empty_dsn), range(8)))
    assert applied(databases[0]) == sorted((step.room, step.version) for step in MIGRATIONS)
    for database in databases:
        database.close()


def test_a_new_step_is_applied_to_an_old_database_once(database):
    steps = [*MIGRATIONS, Migration(room="traffic", version=99, sql="create table extra (id integer)")]
    migrate(database, steps)
    migrate(database, steps)
    assert ("traffic", 99) in applied(database)


def test_a_record_of_last_month_is_still_read(empty_dsn):
    old = {("traffic", 1), ("traffic", 2), ("review", 1)}
    database = Database(empty_dsn)
    migrate(database, [step for step in MIGRATIONS if (step.room, step.version) in old])
    held = entry()
    columns = log.RECORD_COLUMNS.removesuffix(", steps, cost, cluster")
    marks = ", ".join(["%s"] * len(columns.split(", ")))
    with database.transaction() as connection:
        connection.execute(f"insert into records ({columns}) values ({marks})", log._row(held.record)[:-3])
        connection.execute(
            "insert into review_items (record_id, model, status, created_at) values (%s, 'toy', 'waiting', now())",
            (held.record.id,),
        )
    migrate(database, MIGRATIONS)
    with database.transaction() as connection:
        assert log.find_one(connection, held.record.id) == held.record
        assert find_shadow(connection, held.record.id) is None
        assert cases.case(connection, held.record.id).kind == "held"
        assert connection.execute("select steps, cost, cluster from records").fetchall() == [(None, None, None)]
    database.close()


def test_a_newer_schema_is_refused(database):
    migrate(database, [*MIGRATIONS, Migration(room="traffic", version=99, sql="select 1")])
    with pytest.raises(UnknownSchema, match=r"traffic.*99"):
        migrate(database, MIGRATIONS)


def test_a_step_that_fails_leaves_nothing_behind(database):
    bad = Migration(room="traffic", version=99, sql="create table half (id integer); select 1 / 0")
    with pytest.raises(Exception, match="division by zero"):
        migrate(database, [*MIGRATIONS, bad])
    with database.transaction() as connection:
        assert connection.execute("select to_regclass('half')").fetchone() == (None,)


@pytest.mark.slow
def test_a_database_that_is_not_there_is_named_without_its_password():
    database = Database("postgresql://ada:secret@127.0.0.1:9/demur", patience_seconds=0.5)
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1:9/demur") as caught, database.transaction():
        pass
    assert "secret" not in str(caught.value)
    assert "secret" not in described("postgresql://ada:secret@127.0.0.1:9/demur")
    database.close()


def test_where_the_environment_points_is_said_as_well(monkeypatch):
    monkeypatch.setenv("PGHOST", "db.internal")
    monkeypatch.setenv("PGDATABASE", "demur")
    monkeypatch.setenv("PGPASSWORD", "secret")
    assert described("postgresql://") == "db.internal:5432/demur"
    assert described("postgresql://127.0.0.1:9/other") == "127.0.0.1:9/other"


def test_a_database_that_takes_no_writes_is_unavailable_and_asked_anew(dsn):
    database = Database(dsn, max_connections=1)
    with database.transaction() as connection:
        connection.execute("set session characteristics as transaction read only")
    with (
        pytest.raises(DatabaseUnavailable, match="takes no writes: cannot execute"),
        database.transaction() as c,
    ):
        log.append(c, [entry()])
    with database.transaction() as connection:  # another connection, such as one to the server that took over
        log.append(connection, [entry()])
    database.close()


def count(database):
    with database.transaction() as connection:
        return connection.execute("select count(*) from records").fetchone()[0]


def test_a_statement_by_itself_is_committed_when_it_ends(database):
    with database.by_themselves() as connection:
        log.append(connection, [entry(), entry()])
        assert count(database) == 2  # another connection sees them already


@pytest.mark.parametrize("fails", [False, True])
def test_the_next_one_has_a_transaction_again(dsn, fails):
    """Whatever a statement by itself came to: what is written in a transaction that fails is not there."""
    database = Database(dsn, max_connections=1)  # both get the same connection
    with suppress(DivisionByZero), database.by_themselves() as connection:
        connection.execute("select 1 / %s", (0 if fails else 1,))
    with suppress(RuntimeError), database.transaction() as connection:
        log.append(connection, [entry()])
        raise RuntimeError
    assert count(database) == 0
    database.close()


def test_a_connection_that_breaks_by_itself_is_told_as_lost(dsn):
    database = Database(dsn, max_connections=1)
    with pytest.raises(ConnectionLost), database.by_themselves() as connection:
        connection.execute("select pg_terminate_backend(pg_backend_pid())")
    assert count(database) == 0  # over a new one
    database.close()


def test_records_that_take_several_statements_are_written_together_or_not_at_all(database, monkeypatch):
    monkeypatch.setattr(log, "LARGEST_STATEMENT", 1000)
    wrong = entry(input="a" * 2000, model=None)  # no record is without
    with pytest.raises(psycopg.IntegrityError), database.by_themselves() as connection:
        log.append(connection, [entry(input="a" * 2000), wrong])
    assert count(database) == 0


def test_a_record_whose_input_cannot_be_written_is_not_written(database):
    """A zero in a text is written value by value, and inputs come after their records."""
    wrong = replace(entry(input="a\0b"), input_expires_at="no time")
    with pytest.raises(psycopg.DataError), database.by_themselves() as connection:
        log.append(connection, [wrong])
    assert count(database) == 0


def test_inputs_are_compressed_the_fast_way_where_the_server_knows_it(database, dsn):
    with database.transaction() as connection:
        choices, now = connection.execute(
            "select enumvals, setting from pg_settings where name = 'default_toast_compression'"
        ).fetchone()
    assert now == ("lz4" if "lz4" in choices else "pglz")
    chosen = Database(f"{dsn}%20-cdefault_toast_compression%3Dpglz")
    with chosen.transaction() as connection:  # what an operator has chosen stays
        assert connection.execute("show default_toast_compression").fetchone() == ("pglz",)
    chosen.close()
