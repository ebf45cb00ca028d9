"""Work is held by its token: who lost a lease changes nothing, in each of the tables that hand work out."""

from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest

from demur.traffic.leases import FREE, HELD, LAPSED, TAKEN, change_held


@dataclass
class Row:
    id: UUID
    attempts: int


@pytest.fixture
def work(database):
    """A table of work, and a function that asks it."""
    with database.transaction() as connection:
        connection.execute(
            "create table work (id uuid primary key, attempts int not null default 0, leased_until timestamptz)"
        )
        row = Row(uuid4(), 0)
        connection.execute("insert into work (id) values (%s)", (row.id,))
    return database, row


def take(database, seconds):
    with database.transaction() as connection:
        return connection.execute(
            f"update work set {TAKEN} where {FREE} returning attempts", {"lease": seconds}
        ).fetchone()


def test_nobody_takes_what_is_held_and_anybody_what_has_lapsed(work):
    database, _ = work
    assert take(database, 60) == (1,)
    assert take(database, 60) is None
    with database.transaction() as connection:
        connection.execute("update work set leased_until = clock_timestamp() - interval '1 second'")
        assert connection.execute(f"select count(*) from work where {LAPSED}").fetchone() == (1,)
    assert take(database, 60) == (2,)


def test_whoever_lost_the_lease_changes_nothing(work):
    database, row = work
    first, second = Row(row.id, take(database, 0)[0]), Row(row.id, take(database, 60)[0])
    with database.transaction() as connection:
        assert not change_held(connection, "work", first, HELD, while_="true", lease=600)
        assert change_held(connection, "work", second, HELD, while_="true", lease=600)
        assert not change_held(connection, "work", second, HELD, while_="false", lease=600)
