"""Whether the database can be used, without changing anything in it."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg

from demur.serve.commands.trials import Finding, NotTried, Remark, Wrong
from demur.serve.config.file import Config
from demur.serve.local.run_folder import open_to_everybody
from demur.traffic.database import described, one_line

SECONDS = 10


def try_database(config: Config, *, offline: bool) -> Iterator[Finding]:
    """Whether there is a database that lets us in; of the embedded one, whether there is a place for it."""
    if why := _not_writable(config.data):
        yield Wrong(("data",), why)
    if risk := open_to_everybody(config.data):
        yield Remark(risk)
    if config.database == "embedded":
        return
    if offline:
        yield NotTried("the database (--offline)")
        return
    try:
        with psycopg.connect(config.database, connect_timeout=SECONDS) as connection:
            connection.execute("select 1")
    except psycopg.Error as error:
        where = f"PostgreSQL at {described(config.database)}"
        yield Wrong(("database",), f"{where} cannot be used: {one_line(error).removeprefix('connection failed: ')}")


def _not_writable(folder: Path) -> str:
    """Why nothing can be kept in a folder; empty where all is well."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    if not there.is_dir():
        return f"{there} is no folder; name another one"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"nothing can be written in {there}; name another folder"
