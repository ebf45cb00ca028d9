"""How much there is for people to do, counted no further than is asked for."""

from dataclasses import dataclass
from math import isfinite

from demur.review.cases import IN_ORDER
from demur.review.item import ENDED, Case, QueueOrder, Status
from demur.review.pace import HOUR, pace
from demur.traffic.database import Connection

MOST_AHEAD = 10_000
"""A case that is further back than this is said to be here."""

OPEN_CASES = (
    "select (select count(*) from (select from review_items where status = 'waiting' limit %(most)s) waiting)"
    " + (select count(*) from (select from review_items"
    "     where status in ('claimed', 'answered', 'adjudication') limit %(most)s) under_way)"
)

PLACE = {
    (order, status): (  # the status is written out, since an index of some statuses is no use for a status to come
        "select count(*), min(place) filter (where id = %(id)s) from ("
        f" select id, row_number() over (order by {columns}) as place from review_items where status = '{status.value}'"
        f" order by {columns} limit %(most)s) first"
    )
    for order, columns in IN_ORDER.items()
    for status in (Status.WAITING, Status.ADJUDICATION)
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Expectation:
    """When a case will have been looked at, roughly."""

    ahead: int | None
    """How many cases come before it, `MOST_AHEAD` where there are more; None where it has ended."""

    expected_seconds: float | None
    """Until it is resolved at the pace of late; None where it has ended, or nothing was resolved."""


NOTHING_EXPECTED = Expectation(ahead=None, expected_seconds=None)


def open_cases(connection: Connection, *, at_most: int) -> int:
    """How many cases have not ended, `at_most` where there are more. Reads two indexes, and no more of them."""
    row = connection.execute(OPEN_CASES, {"most": at_most}).fetchone()
    assert row is not None
    return min(int(row[0]), at_most)


def expect(connection: Connection, case: Case, order: QueueOrder) -> Expectation:
    """What comes before a case in the order in which cases are worked, and how long that will take at the pace of late.

    It is as if everybody could answer every case. Reads no more than `MOST_AHEAD` entries of one index, and what
    `pace` reads.
    """
    if case.status in ENDED:
        return NOTHING_EXPECTED
    ahead = 0  # somebody has it
    if case.status in (Status.WAITING, Status.ADJUDICATION):
        ahead = _before(connection, case, order)
    hours = pace(connection).hours_for(ahead + 1)
    return Expectation(ahead=ahead, expected_seconds=HOUR * hours if isfinite(hours) else None)


def _before(connection: Connection, case: Case, order: QueueOrder) -> int:
    """Cases about which people disagree come before all that wait."""
    disputed, place = _place(connection, case, Status.ADJUDICATION, order)
    if case.status is Status.ADJUDICATION:
        return place
    return min(disputed + _place(connection, case, Status.WAITING, order)[1], MOST_AHEAD)


def _place(connection: Connection, case: Case, status: Status, order: QueueOrder) -> tuple[int, int]:
    """How many cases have this status, up to `MOST_AHEAD`, and how many of them come before this one."""
    values = {"id": case.id, "most": MOST_AHEAD}
    n, place = connection.execute(PLACE[order, status], values).fetchone() or (0, None)
    if place is not None:
        return n, place - 1
    return n, MOST_AHEAD if n == MOST_AHEAD else 0  # 0: its lease ran out, and it is not back in the queue yet
