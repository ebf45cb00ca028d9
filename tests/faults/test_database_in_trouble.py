"""A database that hangs, is slow, takes no writes, is full, or has no connection left: callers are told, and nothing
is answered that is not on record."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.faults.conftest import LARGE, Site, Trial

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SECONDS = 10.0 if LARGE else 3.0
"""For how long what does not stop the service lasts."""

UNAVAILABLE = {"503 DatabaseUnavailable"}

ROOM = 4 * 2**20
"""Bytes on the small disk beside what is there."""


@contextmanager
def administrator(site: Site) -> Iterator[psycopg.Connection]:
    with psycopg.connect(site.dsn, autocommit=True) as connection:
        yield connection


def test_a_table_is_locked_for_a_while(site: Site, trial: Trial):
    def fault(load):
        with psycopg.connect(site.dsn) as connection:
            connection.execute("lock table records in access exclusive mode")
            time.sleep(3.0)

    load, _ = trial(site, fault)
    assert not load.troubles  # everybody waited


def test_the_database_server_hangs(site: Site, trial: Trial):
    def fault(load):
        server = psutil.Process(site.database_pid())
        hung = [server, *server.children()]
        for process in hung:
            process.suspend()
        time.sleep(13.0)  # a commit is waited for ten seconds
        for process in hung:
            process.resume()

    load, _ = trial(site, fault)
    assert set(load.troubles) == UNAVAILABLE


def test_every_commit_takes_half_a_second(site: Site, trial: Trial):
    def fault(load):
        with administrator(site) as connection:
            connection.execute(
                "create function slow() returns trigger language plpgsql as"
                " $$ begin perform pg_sleep(0.5); return null; end $$;"
                "create trigger slow after insert on payloads for each statement execute function slow()"
            )
            time.sleep(SECONDS)
            connection.execute("drop trigger slow on payloads; drop function slow")

    load, _ = trial(site, fault)
    assert not load.troubles


def test_the_database_takes_no_writes(site: Site, trial: Trial):
    def fault(load):
        with administrator(site) as connection:
            connection.execute("alter system set default_transaction_read_only = on")
            connection.execute("select pg_reload_conf()")
            time.sleep(SECONDS)
            connection.execute("set default_transaction_read_only = off")
            connection.execute("alter system reset default_transaction_read_only")
            connection.execute("select pg_reload_conf()")

    load, _ = trial(site, fault)
    assert set(load.troubles) == UNAVAILABLE


def test_no_connection_is_left(site: Site, trial: Trial):
    def fault(load):
        with administrator(site) as connection:
            most = int(connection.execute("show max_connections").fetchone()[0])
            taken = []
            deadline = time.monotonic() + SECONDS + 3
            while time.monotonic() < deadline:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where backend_type = 'client backend' and application_name <> 'storm' and pid <> pg_backend_pid()"
                )
                try:
                    while len(taken) < most:
                        taken.append(psycopg.connect(site.dsn, application_name="storm"))
                except psycopg.OperationalError:
                    time.sleep(0.1)
            for one in taken:
                one.close()

    load, _ = trial(site, fault)
    assert set(load.troubles) == UNAVAILABLE


@contextmanager
def small_disk(owner: psutil.Process, size: int) -> Iterator[Path]:
    """A folder on a disk of so many bytes, which belongs to the user of a process."""
    folder = Path(tempfile.mkdtemp(prefix="demur-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        os.chown(folder, owner.uids().real, owner.gids().real)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def may_mount() -> bool:
    if os.geteuid() != 0:
        return False
    folder = tempfile.mkdtemp(prefix="demur-mount-")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True)
    if done.returncode == 0:
        subprocess.run(["umount", folder], check=True)
    os.rmdir(folder)
    return done.returncode == 0


def test_the_disk_of_the_database_is_full(site: Site, trial: Trial):
    """Of a tablespace on a small disk where we may mount one; else the database says what it would say then."""
    if may_mount():
        on_a_full_disk(site, trial)
    else:
        trial.name += " (said, not mounted)"
        as_if_it_was_full(site, trial)


def on_a_full_disk(site: Site, trial: Trial) -> None:
    with administrator(site) as connection:
        size = connection.execute("select pg_total_relation_size('payloads')").fetchone()[0]
        with small_disk(psutil.Process(site.database_pid()), size + ROOM) as folder:
            connection.execute(f"create tablespace small location '{folder}'")

            def fault(load):
                connection.execute("create table filler tablespace small as select 1 as filler")
                connection.execute("alter table payloads set tablespace small")
                fill(connection)
                load_is_refused(load)
                subprocess.run(["mount", "-o", "remount,size=80%", folder], check=True)  # somebody makes room

            try:
                load, _ = trial(site, fault)
            finally:
                connection.execute("drop table if exists filler")
                connection.execute("alter table payloads set tablespace pg_default")
                connection.execute("drop tablespace small")
    assert set(load.troubles) == UNAVAILABLE


def fill(connection: psycopg.Connection) -> None:
    try:
        while True:
            connection.execute("insert into filler select n from generate_series(1, 2000) n")
    except psycopg.errors.DiskFull:
        return


def as_if_it_was_full(site: Site, trial: Trial) -> None:
    def fault(load):
        with administrator(site) as connection:
            connection.execute(
                "create function full_disk() returns trigger language plpgsql as"
                " $$ begin raise exception 'could not extend file' using errcode = 'disk_full'; end $$;"
                "create trigger full_disk after insert on payloads for each statement execute function full_disk()"
            )
            load_is_refused(load)
            connection.execute("drop trigger full_disk on payloads; drop function full_disk")

    load, _ = trial(site, fault)
    assert set(load.troubles) == UNAVAILABLE


def load_is_refused(load) -> None:
    before = sum(load.troubles.values())
    deadline = time.monotonic() + 60
    while sum(load.troubles.values()) < before + 20:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(SECONDS)
