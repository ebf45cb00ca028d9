"""Lists of cases read an index and their page, however many cases there are."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import psycopg
import pytest

from demur.review import cases
from demur.review.cases import Filter
from demur.review.item import ENDED, EVERYTHING, QueueOrder, ReviewerScope, Status

OPEN = (Status.WAITING, Status.CLAIMED, Status.ANSWERED, Status.ADJUDICATION)
MANY = 4000


@pytest.fixture
def many(database):
    """As many open cases as ended ones. Records and events they have none: only lists are looked at."""
    with database.transaction() as connection:
        connection.execute("alter table review_items disable trigger all")
        connection.execute(
            "insert into review_items"
            " (id, record_id, kind, model, status, created_at, confidence, ended_at, resolution)"
            " select id, id, 'held', 'toy', case when i > %(n)s then 'waiting' else 'resolved' end,"
            "   %(now)s + i * interval '1 s', random(), case when i <= %(n)s then %(now)s end,"
            "   case when i <= %(n)s then 'agreed' end"
            " from (select gen_random_uuid() as id, i from generate_series(1, 2 * %(n)s) i) made",
            {"n": MANY, "now": datetime.now(UTC) - timedelta(days=1)},
        )
        connection.execute("analyze review_items")
    return database


@pytest.fixture
def plans():
    """A cursor that keeps the plan of what it reads, and these plans."""
    kept = []

    class Explaining(psycopg.Cursor):
        def execute(self, query, params=None, **settings):
            rows = psycopg.Cursor(self.connection).execute(f"explain {query}", params).fetchall()
            kept.append("\n".join(row[0] for row in rows))
            return super().execute(query, params, **settings)

    return SimpleNamespace(cursor=Explaining, kept=kept)


@pytest.mark.parametrize(
    ("statuses", "order", "indexes"),
    [
        (OPEN, QueueOrder.AGE, ("review_items_open ",)),
        (OPEN, QueueOrder.UNCERTAINTY, ("review_items_open_by_doubt ",)),
        ((Status.WAITING,), QueueOrder.AGE, ("review_items_open ", "review_items_by_age ")),
        ((Status.WAITING,), QueueOrder.UNCERTAINTY, ("review_items_open_by_doubt ", "review_items_by_doubt ")),
        (ENDED, QueueOrder.AGE, ("review_items_by_end ",)),
    ],
)
@pytest.mark.parametrize("scope", [EVERYTHING, ReviewerScope(models=("toy",))], ids=["all", "one model"])
def test_a_page_of_a_list_reads_one_index(many, plans, statuses, order, indexes, scope):
    with many.transaction() as connection:
        connection.cursor_factory = plans.cursor
        found = cases.listed(connection, Filter(statuses=statuses), scope=scope, order=order, limit=51, offset=100)
        connection.cursor_factory = psycopg.Cursor
    assert len(found) == 51
    (plan,) = plans.kept
    assert any(index in plan for index in indexes), plan
    assert "Sort" not in plan, plan
    assert "Seq Scan" not in plan, plan
