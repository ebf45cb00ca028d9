"""Who has answered cases: the names that are known where the configuration names nobody."""

from demur.traffic.database import Connection

MOST_NAMES = 100


def reviewers_so_far(connection: Connection) -> list[str]:
    """Return the names of those whose answers count, by name, `MOST_NAMES` at most: one step in an index for each."""
    rows = connection.execute(
        "with recursive names as ("
        " select min(reviewer) as reviewer from review_opinions where undone_at is null"
        " union all select (select min(reviewer) from review_opinions where undone_at is null"
        "   and reviewer > names.reviewer) from names where names.reviewer is not null)"
        " select reviewer from names where reviewer is not null limit %s",
        (MOST_NAMES,),
    ).fetchall()
    return [row[0] for row in rows]
