"""What the auditors' application does by itself, again and again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from serve.config.file import Config
from traffic.database import Database


@dataclass(frozen=True, kw_only=True)
class Job:
    """Done every so many seconds, by each replica: of two that do it at once, one must find nothing to do. One that
    raises is logged, and done again the next time."""

    name: str
    seconds: float
    do: Callable[[], object]


JOBS: tuple[Callable[[Config, Database], Job], ...] = ()
"""Each makes one job."""


def jobs(config: Config, database: Database) -> Sequence[Job]:
    return [make(config, database) for make in JOBS]
