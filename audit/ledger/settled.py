"""Up to which moment the memory is complete."""

from datetime import datetime, timedelta

from demur.traffic.database import Connection

WRITTEN_TABLES = ("records", "outcomes", "review_items")

LATENESS = timedelta(seconds=5)
"""A record has the time of its decision, by the gateway's clock, and is written a little later. So long may pass."""


class UnseenWriters(RuntimeError):
    """This database role may not see since when others write. Let it: `grant pg_read_all_stats to ROLE`."""


def settled_moment(connection: Connection, *, lateness: timedelta = LATENESS) -> datetime:
    """Return a moment such that nothing is written any more whose time is at or before it.

    Outcomes and ends of cases get their time from the database, inside the transaction that writes them: what an open
    one writes is later than its beginning. Records bring theirs along, and are taken to be written within `lateness`.
    What is read as of this moment reads the same ever after, but for what is deleted. It must be asked for before the
    snapshot is taken from which is read.
    """
    row = connection.execute(
        "with writers as ("
        "  select pid from pg_locks where locktype = 'relation' and mode = 'RowExclusiveLock'"
        "  and database = (select oid from pg_database where datname = current_database())"
        "  and relation = any(select to_regclass(name) from unnest(%s::text[]) name)"
        ")"
        " select least(clock_timestamp(), min(a.xact_start)) - %s,"
        "   count(*) filter (where a.query = '<insufficient privilege>')"
        " from (select) one left join (pg_stat_activity a join writers using (pid))"
        "   on a.pid <> pg_backend_pid()",
        (list(WRITTEN_TABLES), lateness),
    ).fetchone()
    assert row is not None
    if row[1]:
        raise UnseenWriters(
            "others are writing, and this database role may not see since when; grant it pg_read_all_stats"
        )
    moment: datetime = row[0]
    return moment
