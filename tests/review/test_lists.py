"""Lists of cases read an index and their page, however many cases there are."""

from datetime import UTC, datetime, timedelta

import pytest

from review import cases
from review.cases import Filter
from review.item import ENDED, EVERYTHING, Order, Scope, Status
from tests.conftest import entry
from traffic import log

OPEN = (Status.WAITING, Status.CLAIMED, Status.ANSWERED, Status.ADJUDICATION)
MANY = 4000


@pytest.fixture
def many(database):
    """As many open cases as ended ones, all of one record's kind."""
    one = entry()
    with database.transaction() as connection:
        log.append(connection, [one])
        connection.execute("alter table review_items disable trigger user")
        connection.execute("alter table review_items drop constraint review_items_record_id_fkey")
        connection.execute(
            "insert into review_items (id, record_id, kind, model, status, created_at, confidence, ended_at, resolution)"
            " select id, id, 'held', 'toy', case when i > %(n)s then 'waiting' else 'resolved' end,"
            "   %(now)s + i * interval '1 s', random(), case when i <= %(n)s then %(now)s end,"
            "   case when i <= %(n)s then 'agreed' end"
            " from (select gen_random_uuid() as id, i from generate_series(1, 2 * %(n)s) i) made",
            {"n": MANY, "now": datetime.now(UTC) - timedelta(days=1)},
        )
        connection.execute("analyze review_items")
    return database


class Explained:
    """A connection that keeps the plan of everything that is read through it."""

    def __init__(self, connection):
        self.connection = connection
        self.plan = ""

    def cursor(self, **settings):
        cursor = self.connection.cursor(**settings)
        execute = cursor.execute

        def explain_and_execute(query, values=None):
            rows = self.connection.execute(f"explain {query}", values).fetchall()
            self.plan += "\n".join(row[0] for row in rows)
            return execute(query, values)

        cursor.execute = explain_and_execute
        return cursor


@pytest.mark.parametrize(
    ("statuses", "order", "index"),
    [
        (OPEN, Order.AGE, "review_items_open "),
        (OPEN, Order.UNCERTAINTY, "review_items_open_by_doubt "),
        ((Status.WAITING,), Order.AGE, ("review_items_open ", "review_items_by_age ")),
        ((Status.WAITING,), Order.UNCERTAINTY, ("review_items_open_by_doubt ", "review_items_by_doubt ")),
        (ENDED, Order.AGE, "review_items_by_end "),
    ],
)
@pytest.mark.parametrize("scope", [EVERYTHING, Scope(models=("toy",))], ids=["all", "one model"])
def test_a_page_of_a_list_reads_one_index(many, statuses, order, index, scope):
    with many.transaction() as connection:
        seen = Explained(connection)
        found = cases.listed(seen, Filter(statuses=statuses), scope=scope, order=order, limit=51, offset=100)
    assert len(found) == 51
    assert any(one in seen.plan for one in ([index] if isinstance(index, str) else index)), seen.plan
    assert "Sort" not in seen.plan, seen.plan
    assert "Seq Scan" not in seen.plan, seen.plan
