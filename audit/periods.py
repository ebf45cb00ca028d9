"""Whole periods, at whose ends audits are due."""

from datetime import UTC, datetime, timedelta

A_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
"""From which boundaries are counted: those of whole days fall on midnight, those of whole weeks on Mondays."""


def last_boundary(now: datetime, every: timedelta) -> datetime:
    """The end of the last whole period, at or before `now`."""
    return A_MONDAY + (now - A_MONDAY) // every * every


def next_boundary(now: datetime, every: timedelta) -> datetime:
    return last_boundary(now, every) + every
