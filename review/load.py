"""How much there is for people to do, counted no further than is asked for."""

from traffic.database import Connection

OPEN_CASES = (
    "select (select count(*) from (select from review_items where status = 'waiting' limit %(most)s) waiting)"
    " + (select count(*) from (select from review_items"
    "     where status in ('claimed', 'answered', 'adjudication') limit %(most)s) under_way)"
)


def open_cases(connection: Connection, *, at_most: int) -> int:
    """How many cases have not ended, `at_most` where there are more. Reads two indexes, and no more of them."""
    row = connection.execute(OPEN_CASES, {"most": at_most}).fetchone()
    assert row is not None
    return min(int(row[0]), at_most)
