"""One PostgreSQL database: its connections, and its schema brought up to date."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo, TransactionStatus
from psycopg_pool import ConnectionPool, PoolTimeout

Connection = psycopg.Connection[tuple[Any, ...]]

MIGRATION_LOCK = 0x64656D7572  # an arbitrary number that everybody who migrates agrees on

SIGNS_OF_LIFE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 15_000}
"""A server that is gone without a word is given up after 25 seconds at most, unless its address says otherwise."""


RESTED_SECONDS = 1.0
"""A connection that was used less long ago is taken to live still."""


COMPRESS_FAST = (
    "select set_config(name, 'lz4', false) from pg_settings"
    " where name = 'default_toast_compression' and source = 'default' and 'lz4' = any(enumvals)"
)
"""Inputs of more than two kilobytes are compressed. With lz4 a record of them takes PostgreSQL a third of the time; not
each server has it, and where an operator has chosen something, that stays."""


class DatabaseUnavailable(RuntimeError):
    """PostgreSQL cannot be reached, or went away. Nothing was acknowledged; try again when it is back."""


class BadAddress(ValueError):
    """PostgreSQL's library cannot read the address. Correct it; a password may stand where it is wrong, so that is not
    told."""


class ConnectionLost(DatabaseUnavailable):
    """A connection broke in the middle of a transaction, which may have been committed or not."""


class UnknownSchema(RuntimeError):
    """The database was migrated by a newer demur. Run that version, or point at another database."""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """One step of one room's schema. Steps are never edited once released: a change is a new step."""

    room: str
    version: int
    sql: str


def migrations_in(room: str, folder: Path) -> list[Migration]:
    """The steps of a room, from files named like 0001_what.sql."""
    return [
        Migration(room=room, version=int(path.name.split("_")[0]), sql=path.read_text())
        for path in sorted(folder.glob("*.sql"))
    ]


TRAFFIC_MIGRATIONS = migrations_in("traffic", Path(__file__).parent / "migrations")


class Database:
    """A pool of connections to one PostgreSQL. Safe to share between threads."""

    def __init__(self, dsn: str, *, max_connections: int = 8, patience_seconds: float = 3.0) -> None:
        try:
            told = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError:  # its message repeats a part of the address
            raise BadAddress(
                "the address of the database cannot be read; write it as postgresql://user:password@host:5432/name,"
                " with %40 for @ and %2F for / in user and password"
            ) from None
        self.dsn = dsn
        self._used: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        # No connection is kept in reserve, so that each new try after an outage really tries.
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            dsn,
            min_size=0,
            max_size=max_connections,
            timeout=patience_seconds,
            reconnect_timeout=patience_seconds,
            check=self._check,
            configure=self._configure,
            reset=self._note_use,
            kwargs={
                **{name: value for name, value in SIGNS_OF_LIFE.items() if name not in told},
                "connect_timeout": max(2, round(patience_seconds)),
            },
            open=True,
        )

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction that commits when the block ends well. Whoever leaves it knows that it is on disk."""
        try:
            with self._pool.connection() as connection:
                try:
                    yield connection
                except psycopg.errors.ReadOnlySqlTransaction:
                    connection.close()  # the next one may lead to the server that took over
                    raise
        except psycopg.errors.ReadOnlySqlTransaction as error:
            raise DatabaseUnavailable(
                f"PostgreSQL at {described(self.dsn)} takes no writes: {one_line(error)}"
            ) from error
        except PoolTimeout:
            raise DatabaseUnavailable(
                f"PostgreSQL at {described(self.dsn)} does not answer; start it, or correct its address"
            ) from None
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self._pool.check()  # of the others that rest there, none is to meet with the same
            raise ConnectionLost(f"PostgreSQL at {described(self.dsn)} is not available: {one_line(error)}") from error

    @contextmanager
    def by_themselves(self) -> Iterator[Connection]:
        """A connection on which each statement commits when it ends, in one turn to the server and back: for what is
        one statement. Raises as `transaction` does."""
        with self.transaction() as connection:
            connection.autocommit = True
            try:
                yield connection
            finally:
                if connection.info.transaction_status is TransactionStatus.IDLE:
                    connection.autocommit = False
                else:  # it broke, or was left in the middle of something: nobody is to meet it like that
                    connection.close()

    def _configure(self, connection: Connection) -> None:
        connection.execute(COMPRESS_FAST)
        connection.commit()

    def _check(self, connection: Connection) -> None:
        """A connection that has rested is asked whether it lives before it is used: one turn to the server and back."""
        if time.monotonic() - self._used.get(connection, -inf) >= RESTED_SECONDS:
            ConnectionPool.check_connection(connection)

    def _note_use(self, connection: Connection) -> None:
        self._used[connection] = time.monotonic()

    def close(self) -> None:
        self._pool.close(timeout=1.0)


def migrate(database: Database, migrations: Sequence[Migration]) -> None:
    """Apply the steps that are missing, each once, however many processes start at the same time."""
    with database.transaction() as connection:
        connection.execute("select pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        connection.execute(
            "create table if not exists schema_migrations (room text, version integer,"
            " applied_at timestamptz not null default now(), primary key (room, version))"
        )
        done = set(connection.execute("select room, version from schema_migrations").fetchall())
        known = {(step.room, step.version) for step in migrations}
        if unknown := sorted(done - known):
            raise UnknownSchema(
                f"the database has schema steps that this demur does not know: {unknown};"
                " run the newer demur, or use another database"
            )
        for step in migrations:
            if (step.room, step.version) not in done:
                connection.execute(step.sql.encode())
                connection.execute(
                    "insert into schema_migrations (room, version) values (%s, %s)", (step.room, step.version)
                )


def described(dsn: str) -> str:
    """Where a DSN points, without the password."""
    told = {one.keyword.decode(): one.val.decode() for one in Conninfo.get_defaults() if one.val}  # PGHOST, say
    parts = {**told, **conninfo_to_dict(dsn)}
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', 'postgres')}"


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
