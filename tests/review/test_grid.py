"""Several cases before one person at once: what is claimed, kept, and let go of."""

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from demur.review import grid, queue
from demur.review.ahead import claim_ahead
from demur.review.item import EVERYTHING, ReviewerScope, ReviewVerdict
from demur.traffic import log
from tests.conftest import entry, new_case


@pytest.fixture
def held(database):
    start = datetime.now(UTC) - timedelta(hours=1)
    entries = [entry(model="other" if i == 30 else "toy", created_at=start + timedelta(seconds=i)) for i in range(31)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
    return [one.record.id for one in entries]


def claim(database, name, scope=EVERYTHING):
    with database.transaction() as connection:
        grid.claim_together(connection, name, "toy", lease_seconds=60, scope=scope)
        return [case.id for case in grid.on_grid(connection, name, "toy", scope)]


def test_each_case_is_on_one_grid_alone(database, held):
    assert claim(database, "ada") == held[:24]
    assert claim(database, "bob") == held[24:30]
    assert claim(database, "ada") == held[:24]  # they are kept, and no more are taken
    assert claim(database, "eve") == []


def test_nothing_is_claimed_that_a_person_may_not_see_or_is_to_decide(database, held):
    with database.transaction() as connection:
        one = queue.claim(connection, held[0], "bob", lease_seconds=60)
        verdict = ReviewVerdict(reason="blurred", saw_prediction=False)
        queue.answer(connection, held[0], "bob", token=one.token, verdict=verdict, undo_seconds=0)
        connection.execute("update review_items set status = 'adjudication', settles_at = null where id = %s", held[:1])
        connection.execute("update review_items set assigned_to = 'bob' where id = %s", held[1:2])
    assert claim(database, "eve", ReviewerScope(models=("other",))) == []
    assert claim(database, "eve", replace(EVERYTHING, adjudicates=True)) == held[2:26]


def test_what_is_answered_stays_as_long_as_it_can_be_taken_back(database, held):
    claim(database, "ada")
    with database.transaction() as connection:
        for one, undo in ((held[0], 60), (held[1], 0)):
            verdict = ReviewVerdict(label="7", saw_prediction=True)
            queue.answer(connection, one, "ada", token=1, verdict=verdict, undo_seconds=undo)
        assert {case.id for case in grid.on_grid(connection, "ada", "toy")} == {held[0], *held[2:24]}
    assert len(claim(database, "ada")) == 24  # two more have come, and the answered one makes room


def test_what_was_sent_ahead_is_open_on_a_grid(database, held):
    with database.transaction() as connection:
        assert claim_ahead(connection, "ada", lease_seconds=60).case_id == held[0]
    assert claim(database, "ada") == held[:24]
    with database.transaction() as connection:
        assert not any(case.ahead for case in grid.on_grid(connection, "ada", "toy"))


def test_what_is_let_go_of_waits_for_anybody(database, held):
    claim(database, "ada")
    with database.transaction() as connection:
        queue.answer(
            connection,
            held[0],
            "ada",
            token=1,
            verdict=ReviewVerdict(label="7", saw_prediction=True),
            undo_seconds=60,
        )
        grid.let_go_together(connection, "ada", "toy")
    assert claim(database, "bob") == held[1:25]


def test_a_claim_that_ran_out_is_not_kept(database, held):
    claim(database, "ada")
    with database.transaction() as connection:
        connection.execute(
            "update review_items set lease_until = clock_timestamp() - interval '1 s' where id = %s", held[:1]
        )
        grid.keep_together(connection, "ada", "toy", lease_seconds=600)
        assert {case.id for case in grid.on_grid(connection, "ada", "toy")} == set(held[1:24])


def test_a_grid_and_a_change_of_many_cases_do_not_wait_for_each_other(database, held):
    claim(database, "ada")
    first, urgent = held[0], held[12]
    with database.transaction() as connection:
        connection.execute("update review_items set priority = 1 where id = %s", (urgent,))

    def let_go():
        with database.transaction() as connection:
            grid.let_go_together(connection, "ada", "toy")

    leaving = threading.Thread(target=let_go)
    with database.transaction() as connection:
        lock = "select from review_items where id = %s for update"
        connection.execute(lock, (first,))
        leaving.start()
        waits = "select count(*) from pg_locks where not granted"
        until = time.monotonic() + 30
        while connection.execute(waits).fetchone() == (0,) and time.monotonic() < until:
            time.sleep(0.02)
        connection.execute("set local lock_timeout = '500ms'")
        connection.execute(lock, (urgent,))
    leaving.join()
