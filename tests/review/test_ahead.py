"""A case that is claimed ahead is a claim like any other until it is opened, let go of, or its short lease runs out."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from demur.review import ahead, cases, queue
from demur.review.item import ReviewVerdict, Status
from demur.review.queue import ClaimLost
from demur.serve.config.file import Config
from demur.serve.web.review.service import ReviewService
from demur.traffic import log
from tests.conftest import entry, new_case
from tests.system.review_site import MODELS

SHORT, FULL = 90.0, 3600.0
SEVEN = ReviewVerdict(label="7", saw_prediction=True)


@pytest.fixture
def held(database):
    """Three held predictions of one model, and one of another, oldest first."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    models = ("digits", "digits", "digits", "letters")
    entries = [entry(model=one, created_at=start + timedelta(minutes=i)) for i, one in enumerate(models)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(e) for e in entries])
    return [e.record.id for e in entries]


def run(database, function, *args, **kwargs):
    with database.transaction() as connection:
        return function(connection, *args, **kwargs)


def take(database, name="ada", **more):
    return run(database, ahead.claim_ahead, name, lease_seconds=SHORT, **more)


def test_nobody_holds_more_than_one_ahead(database, held):
    current = run(database, queue.claim_next, "ada", lease_seconds=FULL)
    first = take(database)
    assert (current.case_id, first.case_id) == (held[0], held[1])
    again = take(database)
    assert (again.case_id, again.token) == (first.case_id, first.token)
    other = take(database, model="letters")
    assert other.case_id == held[3]
    assert run(database, cases.case, held[1]).status is Status.WAITING
    assert [run(database, cases.case, one).ahead for one in held] == [False, False, False, True]


def test_what_is_ahead_of_one_person_is_no_other_persons(database, held):
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda name: take(database, name, model="digits"), ["ada", "bob", "eve", "lea"]))
    taken = [one.case_id for one in found if one]
    assert sorted(taken) == sorted(held[:3])


def test_opening_makes_it_a_full_claim_that_cannot_be_let_go_of(database, held):
    claim = take(database)
    opened = run(database, queue.heartbeat, held[0], "ada", token=claim.token, lease_seconds=FULL)
    assert (opened.token, opened.lease_until > claim.lease_until) == (claim.token, True)
    run(database, ahead.let_go, "ada", held[0])
    assert run(database, cases.case, held[0]).claimed_by == "ada"
    assert run(database, ahead.renew, held[0], "ada", token=claim.token, lease_seconds=SHORT) is None
    assert take(database).case_id == held[1]


def test_only_who_claimed_it_lets_go_of_it(database, held):
    take(database)
    run(database, ahead.let_go, "bob", held[0])
    assert run(database, cases.case, held[0]).ahead
    run(database, ahead.let_go, "ada", held[0])
    assert run(database, cases.case, held[0]).status is Status.WAITING
    assert run(database, cases.events_of, held[0])[-1].detail == {"why": "it was claimed ahead, and not opened"}


def test_one_whose_lease_ran_out_is_anybodys_and_cannot_be_opened(database, held):
    claim = take(database)
    with database.transaction() as connection:
        connection.execute("update review_items set lease_until = clock_timestamp() where id = %s", (held[0],))
    assert run(database, queue.claim_next, "bob", lease_seconds=FULL).case_id == held[0]
    with pytest.raises(ClaimLost, match="with bob"):
        run(database, queue.heartbeat, held[0], "ada", token=claim.token, lease_seconds=FULL)
    assert not run(database, cases.case, held[0]).ahead


def test_seconds_count_from_the_opening(database, held):
    claim = take(database)
    with database.transaction() as connection:
        connection.execute("alter table review_events disable trigger only_added_to")
        connection.execute("update review_events set at = at - interval '1 hour' where case_id = %s", (held[0],))
        connection.execute("alter table review_events enable trigger only_added_to")
    run(database, queue.heartbeat, held[0], "ada", token=claim.token, lease_seconds=FULL)
    run(database, queue.answer, held[0], "ada", token=claim.token, verdict=SEVEN, undo_seconds=FULL)
    (opinion,) = run(database, cases.opinions_of, [held[0]])[held[0]]
    assert 0 <= opinion.seconds < 600
    assert not run(database, cases.case, held[0]).ahead


@pytest.mark.parametrize("second", ["ahead", "next"])
def test_two_claims_of_one_person_take_turns(database, held, second, monkeypatch):
    """What is asked for ahead may be under way when the answer before asks for the next case: it is that one."""
    monkeypatch.setattr(queue, "TURN_SECONDS", 60)
    reviews = ReviewService(Config.model_validate({"models": MODELS}), database)
    with ThreadPoolExecutor(1) as pool:
        with database.transaction() as connection:
            first = ahead.claim_ahead(connection, "ada", lease_seconds=SHORT, model="letters")
            later = (
                pool.submit(take, database, model="letters")
                if second == "ahead"
                else pool.submit(reviews.claim_next, "ada", model="letters")
            )
            with pytest.raises(TimeoutError):
                later.result(timeout=0.5)
        assert later.result(timeout=20).case_id == first.case_id == held[3]


def test_a_claim_that_does_not_end_holds_nobody_up_for_long(database, held, monkeypatch):
    monkeypatch.setattr(queue, "TURN_SECONDS", 0.1)
    with database.transaction() as connection, ThreadPoolExecutor(1) as pool:
        assert ahead.claim_ahead(connection, "ada", lease_seconds=SHORT).case_id == held[0]
        assert pool.submit(take, database).result(timeout=20).case_id == held[1]


def test_claims_of_others_do_not_wait(database, held):
    with database.transaction() as connection, ThreadPoolExecutor(1) as pool:
        assert ahead.claim_ahead(connection, "ada", lease_seconds=SHORT).case_id == held[0]
        assert pool.submit(take, database, "bob").result(timeout=20).case_id == held[1]
