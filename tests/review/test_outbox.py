"""What is to be told to other systems: written with the move, taken by one sender at a time, tried again, given up."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.review import outbox, queue, settling
from demur.review.changes import CaseChange, change_cases
from demur.review.outbox import (
    FIRST_SECONDS,
    LONGEST_SECONDS,
    DeliveryNotFound,
    Subscription,
    WebhookEvent,
    announce,
    pause_seconds,
    subscribe,
)
from demur.review.settling import Settlement
from demur.traffic import log
from tests.conftest import entry, new_case, resolve

HERE = "https://here.example/hook"
THERE = "https://there.example/hook"
EVERYTHING_HERE = Subscription(webhook=HERE, events=tuple(event.value for event in WebhookEvent))
MOST = {"most_attempts": 3}


@pytest.fixture
def put(database):
    """So many cases in the queue, with webhooks that want to know of them; return their ids."""

    def put(n=1, *, subscriptions=(EVERYTHING_HERE,), **changes):
        entries = [entry() for _ in range(n)]
        with database.transaction() as connection:
            subscribe(connection, subscriptions)
            log.append(connection, entries)
            queue.enqueue(connection, [new_case(e, **changes) for e in entries])
        return [e.record.id for e in entries]

    return put


@pytest.fixture
def run(database):
    """Call something inside a transaction of its own."""

    def run(act, *args, **settings):
        with database.transaction() as connection:
            return act(connection, *args, **settings)

    return run


@pytest.fixture
def waiting(put, run):
    """So many deliveries that are due."""

    def waiting(n=1):
        ids = put(n)
        for one in ids:
            run(announce, one, WebhookEvent.RESOLVED)
        return ids

    return waiting


def written(connection):
    return connection.execute("select webhook, event, case_id from webhook_deliveries order by created_at").fetchall()


def take(run, webhook=HERE, *, lease_seconds=60, most_attempts=3, limit=9):
    return run(outbox.take, webhook, lease_seconds=lease_seconds, most_attempts=most_attempts, limit=limit)


def pass_lease(run):
    run(lambda c: c.execute("update webhook_deliveries set leased_until = clock_timestamp() - interval '1 s'"))


def pass_pause(run):
    run(lambda c: c.execute("update webhook_deliveries set next_at = clock_timestamp()"))


def column(run, name):
    return run(lambda c: c.execute(f"select {name} from webhook_deliveries").fetchone()[0])


def test_every_move_that_is_news_is_in_the_outbox_and_once(put, run):
    resolved, withdrawn, expired, overdue, waits = put(5)
    run(resolve, resolved, "ada", "7")
    for _ in range(2):
        run(queue.withdraw, withdrawn, "ada", why="a test")
    for one, at_due in ((expired, "unanswered"), (overdue, "notify")):
        run(lambda c, one=one: c.execute("update review_items set due_at = clock_timestamp() where id = %s", (one,)))
        for _ in range(2):
            run(settling.sweep, Settlement(at_due=at_due))
    assert [(event, case) for _, event, case in run(written)] == [
        ("resolved", resolved),
        ("withdrawn", withdrawn),
        ("expired", expired),
        ("overdue", overdue),
    ]
    run(announce, resolved, WebhookEvent.RESOLVED)
    assert len(run(written)) == 4
    run(resolve, overdue, "ada", "7")  # late is another event
    assert [event for _, event, case in run(written) if case == overdue] == ["overdue", "resolved"]
    assert waits not in [case for *_, case in run(written)]


def test_a_due_time_that_was_moved_is_told_again_when_it_has_passed(put, run):
    (case,) = put()
    for _ in range(2):
        run(lambda c: c.execute("update review_items set due_at = clock_timestamp() where id = %s", (case,)))
        run(settling.sweep, Settlement(at_due="notify"))
        (delivery,) = take(run)
        run(outbox.delivered, delivery.id)
        later = CaseChange(values={"due_at": datetime.now(UTC) + timedelta(hours=4)})
        run(change_cases, [case], "lea", later, why="it can wait")
    assert run(written) == []


def test_a_move_that_is_taken_back_is_not_told(put, database, run):
    (case,) = put()
    with database.transaction() as connection:
        resolve(connection, case, "ada", "7")
        assert len(written(connection)) == 1
        connection.rollback()
    assert run(written) == []


def test_each_webhook_is_told_what_it_asked_for(put, run):
    (case,) = put(
        subscriptions=[
            Subscription(webhook=HERE, events=("resolved", "expired")),
            Subscription(webhook=THERE, events=("resolved",), models=("toy", "other")),
            Subscription(webhook="https://elsewhere.example", events=("resolved",), models=("other",)),
            Subscription(webhook="https://overdue.example", events=("overdue",)),
        ]
    )
    run(announce, case, WebhookEvent.RESOLVED)
    assert {webhook for webhook, *_ in run(written)} == {HERE, THERE}


def test_of_a_second_look_only_another_verdict_is_told(put, run):
    (case,) = put()
    again = uuid4()
    run(
        lambda c: c.execute(
            "insert into review_items (id, record_id, kind, model, status, created_at)"
            " values (%s, %s, 're_review', 'toy', 'waiting', now())",
            (again, case),
        )
    )
    run(resolve, case, "ada", "7")
    for event in (WebhookEvent.OVERDUE, WebhookEvent.EXPIRED, WebhookEvent.WITHDRAWN):
        run(announce, again, event)
    run(resolve, again, "bob", "7")  # agrees
    assert [(event, which) for _, event, which in run(written)] == [("resolved", case)]
    for decided, is_told in (("7", False), ("1", True)):
        other, second = put()[0], uuid4()
        run(resolve, other, "ada", "7")
        run(
            lambda c, second=second, other=other: c.execute(
                "insert into review_items (id, record_id, kind, model, status, created_at)"
                " values (%s, %s, 're_review', 'toy', 'waiting', now())",
                (second, other),
            )
        )
        run(resolve, second, "bob", "1")  # differs, so somebody decides
        run(resolve, second, "cleo", decided)
        assert (run(written)[-1][1:] == ("resolved", second)) == is_told


def test_what_is_taken_is_nobody_elses_until_the_lease_is_over(waiting, run):
    waiting(2)
    first = take(run, limit=1)
    second = take(run)
    assert len({one.id for one in (*first, *second)}) == 2
    assert (take(run), take(run, THERE)) == ([], [])
    assert {one.attempts for one in (*first, *second)} == {1}
    pass_lease(run)
    assert {(one.id, one.attempts) for one in take(run)} == {(one.id, 2) for one in (*first, *second)}


def test_many_who_take_at_once_get_each_thing_once(waiting, database):
    waiting(60)
    start = threading.Barrier(4)

    def work():
        taken = []
        start.wait()
        while True:
            with database.transaction() as connection:
                some = outbox.take(connection, HERE, lease_seconds=60, most_attempts=3, limit=5)
            if not some:
                return taken
            taken += [one.id for one in some]

    with ThreadPoolExecutor(4) as pool:
        taken = [one for work in [pool.submit(work) for _ in range(4)] for one in work.result()]
    assert len(taken) == len(set(taken)) == 60


def test_the_body_is_kept_letter_by_letter(waiting, run):
    waiting()
    (one,) = take(run)
    assert one.body is None
    body = '{"b": 1,  "a": "\\u0000 é"}'
    run(outbox.keep_body, one.id, body)
    pass_lease(run)
    assert take(run)[0].body == body


def test_what_has_arrived_is_not_sent_again(waiting, run):
    waiting()
    (one,) = take(run)
    pass_lease(run)
    (late,) = take(run)  # somebody else has it now
    run(outbox.delivered, one.id)  # and yet it has arrived
    assert run(outbox.failed, late, "no answer", **MOST, rng=np.random.default_rng(0), for_good=True) is False
    pass_lease(run)
    pass_pause(run)
    assert take(run) == []
    assert (column(run, "dead_at"), column(run, "last_error")) == (None, None)


def test_what_fails_is_tried_again_after_a_pause_and_then_given_up(waiting, run):
    waiting()
    rng = np.random.default_rng(0)
    for attempt in range(1, 4):
        (one,) = take(run)
        assert one.attempts == attempt
        assert run(outbox.failed, one, f"error {attempt}", **MOST, rng=rng) is (attempt == 3)
        assert take(run) == []  # the pause
        assert column(run, "last_error") == f"error {attempt}"
        pass_pause(run)
    assert take(run) == []
    (dead,) = run(outbox.dead_letters, limit=9)
    assert (dead.attempts, dead.last_error) == (3, "error 3")


def test_the_pause_is_between_now_and_its_bound(waiting, run):
    waiting()
    (one,) = take(run)
    before = datetime.now(UTC)
    run(outbox.failed, one, "no", **MOST, rng=np.random.default_rng(0))
    assert before <= column(run, "next_at") <= datetime.now(UTC) + timedelta(seconds=FIRST_SECONDS)


def test_a_receiver_that_is_gone_is_given_up_at_once(waiting, run):
    waiting()
    (one,) = take(run)
    assert run(outbox.failed, one, "it answered 410", **MOST, rng=np.random.default_rng(0), for_good=True)
    assert len(run(outbox.dead_letters, limit=9)) == 1


def test_a_sender_whose_lease_was_lost_decides_nothing(waiting, run):
    waiting()
    (one,) = take(run)
    pass_lease(run)
    take(run)
    assert run(outbox.failed, one, "late", **MOST, rng=np.random.default_rng(0), for_good=True) is False
    assert (column(run, "dead_at"), column(run, "last_error")) == (None, None)


def test_what_kills_every_sender_is_given_up_as_well(waiting, run):
    waiting()
    for _ in range(3):
        assert take(run)
        assert take(run) == []
        pass_lease(run)
    assert take(run) == []
    (dead,) = run(outbox.dead_letters, limit=9)
    assert dead.last_error == "every sender died of it"


def test_a_dead_letter_is_sent_again_as_if_it_was_new(waiting, run):
    waiting()
    (one,) = take(run)
    with pytest.raises(DeliveryNotFound):
        run(outbox.send_again, one.id)
    run(outbox.failed, one, "no", most_attempts=1, rng=np.random.default_rng(0))
    run(outbox.send_again, one.id)
    (again,) = take(run)
    assert (again.id, again.attempts) == (one.id, 1)
    with pytest.raises(DeliveryNotFound, match="look at the list again"):
        run(outbox.send_again, uuid4())


def test_a_webhook_that_is_no_longer_configured_gets_nothing_and_it_is_seen(waiting, run):
    waiting(2)
    (one, _) = take(run)
    run(outbox.delivered, one.id)
    run(subscribe, [Subscription(webhook=THERE, events=("resolved",), models=("toy",))])
    assert run(outbox.subscriptions) == [Subscription(webhook=THERE, events=("resolved",), models=("toy",))]
    (dead,) = run(outbox.dead_letters, limit=9)
    assert (dead.webhook, dead.last_error) == (HERE, "this webhook is no longer configured")
    assert [(p.webhook, p.waiting, p.dead, p.oldest) for p in run(outbox.pending)] == [
        (HERE, 0, 1, None),
        (THERE, 0, 0, None),
    ]
    run(subscribe, [])
    assert run(outbox.subscriptions) == []


def test_what_waits_is_counted_from_the_oldest_on(waiting, run):
    waiting(3)
    (pending,) = run(outbox.pending)
    assert (pending.waiting, pending.dead) == (3, 0)
    assert pending.oldest == run(lambda c: c.execute("select min(created_at) from webhook_deliveries").fetchone()[0])


def test_what_arrived_long_ago_is_forgotten(waiting, run):
    waiting(3)
    old, fresh, _ = take(run)
    for one in (old, fresh):
        run(outbox.delivered, one.id)
    run(
        lambda c: c.execute(
            "update webhook_deliveries set delivered_at = now() - interval '31 days' where id = %s", (old.id,)
        )
    )
    assert run(outbox.forget_delivered) == 1
    assert run(lambda c: c.execute("select count(*) from webhook_deliveries").fetchone()[0]) == 2


@given(attempts=st.integers(1, 10_000), seed=st.integers(0, 2**32))
def test_a_pause_keeps_its_bounds(attempts, seed):
    pause = pause_seconds(attempts, np.random.default_rng(seed))
    assert 0 <= pause <= LONGEST_SECONDS
    assert pause <= FIRST_SECONDS * 3.0 ** min(attempts - 1, 20)


def test_pauses_spread_over_all_of_their_range_and_grow():
    """Uniform from 0 on, so that what failed together does not come back together."""
    rng = np.random.default_rng(7)
    for attempts, bound in ((1, 10.0), (2, 30.0), (4, 270.0), (12, LONGEST_SECONDS)):
        pauses = np.array([pause_seconds(attempts, rng) for _ in range(4000)])
        # the mean of 4,000 uniform draws has a standard error of 0.0046 of the bound: five of them
        assert abs(pauses.mean() / bound - 0.5) < 0.023
        assert pauses.min() < 0.01 * bound
        assert pauses.max() > 0.99 * bound
