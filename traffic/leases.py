"""Work that is handed out for a while: the words and the SQL that every table of such work shares.

Whoever takes a row holds it until its lease ends, by the database's clock. Each take is an attempt. The number of the
attempt is the token: a holder whose lease has ended, and whose row somebody else has taken, changes nothing any more.
"""

from typing import Any, Protocol
from uuid import UUID

from demur.traffic.database import Connection

LAPSED = "leased_until < clock_timestamp()"
"""Of a row that somebody took and did not finish in time."""

FREE = "coalesce(leased_until, '-infinity') < clock_timestamp()"
"""Of a row that nobody holds."""

HELD = "leased_until = clock_timestamp() + make_interval(secs => %(lease)s)"
"""Take a row, or hold it for longer: for so many seconds from now."""

TAKEN = f"attempts = attempts + 1, {HELD}"


class LeasedRow(Protocol):
    """A row as whoever took it knows it."""

    @property
    def id(self) -> UUID: ...

    @property
    def attempts(self) -> int:
        """The token."""
        ...


def change_held(
    connection: Connection, table: str, row: LeasedRow, changes: str, *, while_: str, **values: object
) -> bool:
    """Change a row that one holds; return False, and change nothing, where somebody else has taken it since or it is no
    longer as `while_` says."""
    told: dict[str, Any] = {"id": row.id, "token": row.attempts, **values}
    return (
        connection.execute(
            f"update {table} set {changes} where id = %(id)s and attempts = %(token)s and {while_}", told
        ).rowcount
        == 1
    )
