"""Alarms that are on now, as the banner of every page of the auditors shows them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from demur.audit.state.alarms import in_force
from demur.traffic.database import Connection, Database, DatabaseUnavailable


@dataclass(frozen=True, kw_only=True, slots=True)
class PageAlarm:
    """Something that somebody should look at."""

    model: str
    words: str
    """What is the matter, in one sentence."""

    since: datetime
    path: str
    """Of the page that tells more, below the prefix of this application: `/monitors/digits`."""


def of_monitors(connection: Connection) -> list[PageAlarm]:
    """What monitors have raised and nobody has undone."""
    return [
        PageAlarm(model=one.model, words=one.words, since=one.raised_at, path=f"/monitors#alarm-{one.id}")
        for one in in_force(connection)
    ]


SOURCES: tuple[Callable[[Connection], list[PageAlarm]], ...] = (of_monitors,)
"""Each tells what is on, at the moment of asking."""


def alarms_on(database: Database) -> list[PageAlarm]:
    """Everything that is on now; nothing where the database is away, which the page itself says."""
    try:
        with database.transaction() as connection:
            return [alarm for source in SOURCES for alarm in source(connection)]
    except DatabaseUnavailable:
        return []
