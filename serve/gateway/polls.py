"""What a gateway looks at again and again, beside the requests."""

from collections.abc import Callable
from dataclasses import dataclass

ALARM_SECONDS = 1.0
"""How often a gateway looks at what alarms hold."""

CONTROL_SECONDS = 1.0
"""How often a gateway writes, or learns, where the values stand that steer decisions."""

COUNT_SECONDS = 1.0
"""How often a gateway counts the open cases, where their number is limited."""

DATABASE_SECONDS = 1.0
"""How often a gateway looks whether the database is there."""

TRAFFIC_SECONDS = 60.0
"""How often a gateway looks at what recent traffic was like."""


@dataclass(frozen=True)
class Poll:
    """One look at the database, which any thread may take. The first one is taken before the gateway answers."""

    look: Callable[[], None]
    seconds: float
    """Between two looks."""
