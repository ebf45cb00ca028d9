"""`measure` counts processor time for the part that spent it, also where a process began late."""

import multiprocessing
import os

import psutil
import psycopg
import pytest

from benchmarks.scaling.measuring import OneNode, spent_during

SUM = "select sum(n) from generate_series(1, 500000) n"


class IdleNode(OneNode):
    """A node of PostgreSQL alone."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @property
    def dsn(self) -> str:
        return self._dsn


def seconds_of(connection: psycopg.Connection) -> float:
    times = psutil.Process(connection.info.backend_pid).cpu_times()
    return times.user + times.system


def test_a_connection_that_is_opened_later_counts_for_postgres(dsn) -> None:
    def work() -> psycopg.Connection:
        connection = psycopg.connect(dsn)
        connection.execute(SUM)
        return connection

    with psycopg.connect(dsn) as earlier:
        earlier.execute(SUM)
        connection, spent = spent_during(work, IdleNode(dsn).processes)
        with connection:
            assert spent["postgres"] == pytest.approx(seconds_of(connection), abs=0.03)
        _, spent = spent_during(lambda: None, IdleNode(dsn).processes)
        assert spent["postgres"] < seconds_of(earlier) / 2  # what was spent before the first reading does not count


def test_callers_do_not_count_for_ray(dsn) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        caller = pool.apply(os.getpid)
        assert caller not in {process.pid for process in IdleNode(dsn).processes()}
