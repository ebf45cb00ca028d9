"""`demur backup` and `demur restore`: the database and the artifacts, as one folder that can be carried away.

The dump is what the database held at one moment, whatever is written meanwhile. Artifacts and their history are never
changed once they are written, so those that are copied after the dump include all that its records name.
"""

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from demur.calibration_store.folder import Folder
from demur.serve.commands.terminal import ConfigOption, config_path, out
from demur.serve.config.file import Config
from demur.serve.configuration import load_config
from demur.serve.database.opening import MIGRATIONS, open_database
from demur.serve.database.postgres import EmbeddedPostgres, postgres_program
from demur.traffic.database import Database, described

DUMP = "database.dump"
TOLD = "backup.json"
ARTIFACTS = "artifacts"


class CannotBackUp(RuntimeError):
    """Nothing was kept. The message says what is in the way."""


class CannotRestore(RuntimeError):
    """Nothing was changed, or the message says what was. Restore into an empty database and an empty place."""


@dataclass(frozen=True)
class BackupFile:
    """One file of a backup."""

    bytes: int
    sha256: str


def backup(
    to: Annotated[Path, typer.Argument(help="Folder to make; one that is there is left alone.")],
    config: ConfigOption = None,
) -> None:
    """Keep everything that cannot be made again: the database (records, inputs, outcomes, cases, reports, keys) and the
    artifacts, while the service runs or not. `demur restore` brings it back."""
    settings = load_config(config_path(config))
    if to.exists():
        raise CannotBackUp(f"{to} is there already; give the folder of each backup a name of its own")
    begun = time.monotonic()
    unfinished = to.with_name(f"{to.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    taken_at = datetime.now(UTC)
    with ExitStack() as opened:
        dsn = _dsn(settings, opened)
        database = opened.enter_context(_opened(dsn))
        steps = _steps(database)
        if not steps:
            raise CannotBackUp(f"the database at {described(dsn)} holds nothing of demur; is it the right one?")
        _run("pg_dump", dsn, "--format=custom", f"--file={unfinished / DUMP}", failed=CannotBackUp)
    files = {DUMP: _kept(unfinished / DUMP)}
    for name in _copied(Folder(settings.artifacts), Folder(str(unfinished / ARTIFACTS))):
        files[f"{ARTIFACTS}/{name}"] = _kept(unfinished / ARTIFACTS / name)
    told = {
        "demur": version("demur"),
        "taken_at": taken_at.isoformat(),
        "schema": steps,
        "files": {name: vars(kept) for name, kept in files.items()},
    }
    (unfinished / TOLD).write_text(json.dumps(told, indent=2), encoding="utf-8")
    unfinished.rename(to)
    size = sum(kept.bytes for kept in files.values())
    out.print(
        f"kept in {to}: the database as of {taken_at:%Y-%m-%d %H:%M:%S} UTC and {len(files) - 1:,} files of artifacts,"
        f" {size / 2**20:,.1f} MiB, in {time.monotonic() - begun:.1f} s"
    )


def restore(
    backup: Annotated[Path, typer.Argument(help="Folder that `demur backup` made.")],
    config: ConfigOption = None,
) -> None:
    """Bring a backup back, into a database and a place for artifacts where nothing is yet."""
    settings = load_config(config_path(config))
    begun = time.monotonic()
    told = _checked(backup)
    artifacts = Folder(settings.artifacts)
    if artifacts.files():
        raise CannotRestore(f"there are artifacts in {settings.artifacts} already; name an empty place")
    with ExitStack() as opened:
        dsn = _dsn(settings, opened)
        database = opened.enter_context(_opened(dsn))
        if _steps(database):
            raise CannotRestore(f"the database at {described(dsn)} is in use already; name an empty one")
        _run(
            "pg_restore", dsn, "--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges",
            str(backup / DUMP), failed=CannotRestore,
        )  # fmt: skip
        for _ in _copied(Folder(str(backup / ARTIFACTS)), artifacts):
            pass
        open_database(dsn).close()  # a backup of an older demur is brought up to date
        with database.transaction() as connection:
            connection.execute("analyze")  # a dump has no statistics
            row = connection.execute("select count(*) from records").fetchone()
    assert row is not None
    out.print(
        f"restored {row[0]:,} records as of {told['taken_at'][:19]} UTC, with everything about them, and"
        f" {len(told['files']) - 1:,} files of artifacts, in {time.monotonic() - begun:.1f} s"
    )


def _dsn(settings: Config, opened: ExitStack) -> str:
    if settings.database != "embedded":
        return settings.database
    return opened.enter_context(EmbeddedPostgres(settings.data)).dsn


@contextmanager
def _opened(dsn: str) -> Iterator[Database]:
    database = Database(dsn)
    try:
        yield database
    finally:
        database.close()


def _steps(database: Database) -> list[list[Any]]:
    """The steps of the schema that the database has; none if nothing of demur is in it."""
    with database.transaction() as connection:
        if connection.execute("select to_regclass('schema_migrations')").fetchone() == (None,):
            return []
        rows = connection.execute("select room, version from schema_migrations order by room, version").fetchall()
    return [list(row) for row in rows]


def _run(program: str, dsn: str, *words: str, failed: type[Exception]) -> None:
    """Run one of PostgreSQL's own programs. A password goes by the environment: a command line can be read by all."""
    told = conninfo_to_dict(dsn)
    password = told.pop("password", None)
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    address = make_conninfo(**{name: str(value) for name, value in told.items()})
    done = subprocess.run(
        [str(postgres_program(program)), f"--dbname={address}", "--no-password", *words],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        why = " ".join(done.stderr.split())[-500:]
        raise failed(f"{program} at {described(dsn)} failed: {why}")


def _copied(source: Folder, target: Folder) -> Iterator[str]:
    """Copy every file, and yield its name. What history names is there before history is read, and so is copied."""
    history = [name for name in source.files() if "/promotions/" in name]
    for name in [*history, *(name for name in source.files() if "/promotions/" not in name)]:
        target.write(name, source.read(name))
        yield name


def _kept(path: Path) -> BackupFile:
    with path.open("rb") as file:
        return BackupFile(bytes=path.stat().st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest())


def _checked(backup: Path) -> dict[str, Any]:
    """What a backup says about itself, once every file of it is found to be as it was."""
    try:
        told: dict[str, Any] = json.loads((backup / TOLD).read_text(encoding="utf-8"))
        if missing := {"files", "schema", "demur"} - set(told):
            raise ValueError(missing)
    except (OSError, ValueError, TypeError, RecursionError):
        raise CannotRestore(f"{backup} is no backup: there is no {TOLD} in it that can be read") from None
    for name, kept in told["files"].items():
        path = backup / name
        if not path.is_file() or vars(_kept(path)) != kept:
            raise CannotRestore(f"{path} is not what was kept; take another backup")
    known = {(step.room, step.version) for step in MIGRATIONS}
    if unknown := [step for step in told["schema"] if tuple(step) not in known]:
        raise CannotRestore(
            f"the backup is of a newer demur ({told['demur']}), with schema steps that this one does not know:"
            f" {unknown}; restore with that version"
        )
    return told
