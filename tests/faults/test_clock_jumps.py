"""The clock of the service, or of the database, is set by hours under load. Neither makes the other wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psycopg
import pytest

from demur.serve.access.keys import make_key
from demur.serve.access.sessions import make_code
from demur.serve.config.access import Scope
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from tests.faults.clock import COMPILER, Clock
from tests.faults.conftest import LARGE, Site, Trial, kill

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None, reason="no compiler of C, which clock.c needs: apt-get install gcc libc6-dev"),
]

HOURS = 3
"""More than a lease and more than somebody may be idle; less than somebody stays logged in."""

PATIENT = {"X-Request-Timeout": "20"}


class Apart(Site):
    """A service and its database, each with a clock of its own."""

    def __init__(self, digits: Path) -> None:
        super().__init__(digits, gateways=1, hosts=1)
        self.clock, self.database_clock = Clock(self.folder, "clock"), Clock(self.folder, "clock-of-database")
        self.content |= {"database": self.dsn, "access": {"mode": "keys"}}
        self.write()
        with self.database_clock.ruling():
            self._postgres = EmbeddedPostgres(self.folder / "var")
        self.database = open_database(self.dsn)
        self.headers = {"Authorization": f"Bearer {self.key('callers')}", **PATIENT}

    def key(self, name: str, **lasting: datetime) -> str:
        with self.database.transaction() as connection:
            return make_key(connection, name, [Scope.PREDICT], by="tests", **lasting).text

    @contextmanager
    def person(self, name: str) -> Iterator[httpx.Client]:
        """The browser of somebody who has logged in."""
        with self.database.transaction() as connection:
            (now,) = connection.execute("select now()").fetchone()
            code = make_code(connection, name, [Scope.REVIEW], by="tests", expires_at=now + timedelta(minutes=5))
        with httpx.Client(base_url=self.url, headers={"Origin": self.url}, timeout=30) as browser:
            answer = browser.post("/review/login", data={"code": code.text})
            assert answer.status_code == 303, answer.text
            yield browser

    def wait_for_records(self, *, hours: float) -> None:
        """Come back when a gateway says that it is so late."""
        then = datetime.now(UTC) + timedelta(hours=hours)
        around = (then - timedelta(minutes=10), then + timedelta(minutes=10))
        counting = "select count(*) from records where created_at between %s and %s"
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            before = connection.execute(counting, around).fetchone()
            self.wait_until(lambda: connection.execute(counting, around).fetchone() != before)

    def remove(self) -> None:
        self.database.close()
        try:
            super().remove()
        finally:
            self._postgres.close()


@pytest.fixture(scope="module")
def apart(digits: Path) -> Iterator[Apart]:
    running = Apart(digits)
    try:
        with running.clock.ruling():
            running.start(patience=240)
        yield running
    finally:
        running.remove()


def test_the_clock_of_the_service_jumps(apart: Apart, trial: Trial) -> None:
    with apart.person("Ada") as browser:

        def fault(load):
            claim = browser.post("/review/v1/cases/next", json={"model": "digits"}).json()
            case = f"/review/v1/cases/{claim['case_id']}"
            for hours in (HOURS, -HOURS, 0):
                apart.clock.set(hours=hours)
                if hours:
                    apart.wait_for_records(hours=hours)
                load.wait_for(100)
                assert browser.get("/review/v1/me").json()["name"] == "Ada"
                kept = browser.post(f"{case}/heartbeat", json={"token": claim["token"]})
                assert kept.status_code == 200, kept.text  # a lease is the database's
            answer = browser.post(f"{case}/answer", json={"token": claim["token"], "label": "7"})
            assert answer.status_code == 200, answer.text

        load, _ = trial(apart, fault, headers=apart.headers)
    assert not load.troubles  # and no time limit had passed
    ids = [told.said["id"] for told in load.answered]
    assert len(ids) == len(set(ids))


def test_the_clock_of_the_database_jumps(apart: Apart, trial: Trial) -> None:
    with apart.person("Lea") as browser:

        def fault(load):
            claim = browser.post("/review/v1/cases/next", json={"model": "digits"}).json()
            apart.database_clock.set(hours=HOURS)
            apart.wait_until(lambda: _hours_ahead(apart) > HOURS - 0.1)
            load.wait_for(100)
            with apart.person("Bea") as other:  # Lea has been idle for hours, and her lease is over
                taken = other.post(f"/review/v1/cases/{claim['case_id']}/claim")
                assert taken.status_code == 200, taken.text
            apart.database_clock.set(hours=-HOURS)
            apart.wait_until(lambda: _hours_ahead(apart) < -HOURS + 0.1)
            load.wait_for(100)
            apart.database_clock.set(hours=0)
            apart.wait_until(lambda: abs(_hours_ahead(apart)) < 0.1)

        load, _ = trial(apart, fault, headers=apart.headers)
    assert not load.troubles


@pytest.mark.skipif(not LARGE, reason="a host takes its time to start: make bench-faults")
def test_a_host_is_killed_after_the_clock_was_set_back(apart: Apart, trial: Trial) -> None:
    (host,) = apart.replicas("host-digits")

    def fault(load):
        apart.clock.set(hours=-HOURS)
        apart.wait_for_records(hours=-HOURS)
        kill(host)
        known = len(load.answered)
        apart.wait_until(lambda: any(told.said["action"] == "answer" for told in load.answered[known + 100 :]))

    trial(apart, fault, headers=apart.headers)
    assert apart.replicas("host-digits") != [host]
    assert "the clock was set back" in apart.said()


def _hours_ahead(apart: Apart) -> float:
    """Of the database's clock before the machine's."""
    with psycopg.connect(apart.dsn) as connection:
        (now,) = connection.execute("select clock_timestamp()").fetchone()
    return (now - datetime.now(UTC)) / timedelta(hours=1)
