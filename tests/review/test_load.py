"""How much there is to do, and when the turn of a case comes."""

from datetime import UTC, datetime, timedelta

import pytest

from demur.review import cases, load, pace, queue
from demur.review.item import QueueOrder, ReviewVerdict
from demur.review.load import expect
from demur.review.settling import Settlement, settle
from demur.traffic import log
from tests.conftest import entry, new_case, resolve

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def waiting(database):
    """Puts cases into the queue; returns their ids."""

    def put(*told):
        entries = [entry(confidence=one.pop("confidence", 0.5), created_at=one.pop("at", AT)) for one in told]
        with database.transaction() as connection:
            log.append(connection, entries)
            queue.enqueue(connection, [new_case(e, **one) for e, one in zip(entries, told, strict=True)])
        return [e.record.id for e in entries]

    return put


def expected(database, case_id, order=QueueOrder.AGE):
    with database.transaction() as connection:
        return expect(connection, cases.case(connection, case_id), order)


def later(minutes):
    return AT + timedelta(minutes=minutes)


@pytest.mark.parametrize("order", list(QueueOrder))
def test_it_says_in_which_turn_cases_are_given_out(database, waiting, order):
    ids = waiting(
        {"at": later(0)},
        {"at": later(1), "confidence": None},
        {"at": later(2), "priority": 3},
        {"at": later(3), "priority": 3, "due_at": later(90), "confidence": 0.9},
        {"at": later(4), "due_at": later(60)},
        {"at": later(5), "due_at": later(90), "confidence": 0.1},
        {"at": later(6), "due_at": later(90), "confidence": 0.3},
        {"at": later(7), "priority": 9},
        {"at": later(8), "confidence": 0.2},
    )
    told = {expected(database, one, order).ahead: one for one in ids}
    given = []
    with database.transaction() as connection:
        while claim := queue.claim_next(connection, "ada", lease_seconds=60, order=order):
            given.append(claim.case_id)
    assert [told[ahead] for ahead in sorted(told)] == given
    assert sorted(told) == list(range(9))


def test_what_people_disagree_about_comes_first(database, waiting):
    first, disputed, third = waiting({"at": later(0)}, {"at": later(1)}, {"at": later(2)})
    with database.transaction() as connection:
        claim = queue.claim(connection, disputed, "ada", lease_seconds=60)
        assert expect(connection, cases.case(connection, disputed), QueueOrder.AGE).ahead == 0
        verdict = ReviewVerdict(reason="too blurred", saw_prediction=False)
        queue.answer(connection, disputed, "ada", token=claim.token, verdict=verdict, undo_seconds=0)
        settle(connection, Settlement(), disputed)
        assert cases.case(connection, disputed).status == "adjudication"
    assert [expected(database, one).ahead for one in (disputed, first, third)] == [0, 1, 2]


def test_the_pace_is_that_of_the_last_hour(database, waiting):
    long_ago, *recent, first, last, withdrawn = waiting(*({"at": later(n)} for n in range(9)))
    assert expected(database, last).expected_seconds is None
    with database.transaction() as connection:
        for one in (long_ago, *recent):
            resolve(connection, one, "ada", "7")
        queue.withdraw(connection, withdrawn, "ada", why="no need")
        connection.execute(
            "update review_items set ended_at = ended_at - interval '61 minutes' where id = %s", (long_ago,)
        )
    assert len(recent) == 5
    assert expected(database, first) == load.Expectation(ahead=0, expected_seconds=3600 / 5)
    assert expected(database, last) == load.Expectation(ahead=1, expected_seconds=2 * 3600 / 5)
    for ended in (long_ago, recent[0], withdrawn):
        assert expected(database, ended) == load.NOTHING_EXPECTED


def test_where_much_ended_in_the_last_hour_the_latest_say_how_fast_it_goes(database, waiting, monkeypatch):
    monkeypatch.setattr(pace, "LATEST_ENDED", 4)
    *done, last = waiting(*({"at": later(n)} for n in range(7)))
    with database.transaction() as connection:
        for minutes, one in zip((50, 40, 8, 6, 4, 2), done, strict=True):
            resolve(connection, one, "ada", "7")
            connection.execute(
                "update review_items set ended_at = clock_timestamp() - make_interval(mins => %s) where id = %s",
                (minutes, one),
            )
    assert expected(database, last).expected_seconds == pytest.approx(2 * 60, rel=0.01)  # 4 in 8 minutes


def test_far_back_it_is_said_that_there_are_many(database, waiting, monkeypatch):
    monkeypatch.setattr(load, "MOST_AHEAD", 5)
    ids = waiting(*({"at": later(n)} for n in range(9)))
    assert [expected(database, one).ahead for one in ids] == [0, 1, 2, 3, 4, 5, 5, 5, 5]


def test_a_lapsed_lease_makes_no_difference(database, waiting):
    (first,) = waiting({"at": later(0)})
    with database.transaction() as connection:
        queue.claim(connection, first, "ada", lease_seconds=0.001)
    assert expected(database, first).ahead == 0
