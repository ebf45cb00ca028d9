"""Queries whose rows come as columns, without an object for each value, and all from one moment."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from psycopg import sql

from demur.traffic.database import Database, DatabaseUnavailable, described, one_line

Read = Callable[..., Iterator[pa.RecordBatch]]


@contextmanager
def snapshot(database: Database | str) -> Iterator[Read]:
    """A function that runs a query and yields its rows as batches of columns; all in one transaction."""
    dsn = database.dsn if isinstance(database, Database) else database
    try:
        with closing(adbc.connect(dsn)) as connection, closing(connection.cursor()) as cursor:

            def read(query: str, **values: Any) -> Iterator[pa.RecordBatch]:
                literals = {name: sql.Literal(value) for name, value in values.items()}
                # ADBC streams a query without parameters, and keeps the whole result of one with
                cursor.execute(sql.SQL(query).format(**literals).as_string())
                yield from cursor.fetch_record_batch()

            cursor.execute("set transaction isolation level repeatable read, read only")
            yield read
    except (adbc.OperationalError, adbc.InterfaceError) as error:
        raise DatabaseUnavailable(f"PostgreSQL at {described(dsn)} is not available: {one_line(error)}") from error
