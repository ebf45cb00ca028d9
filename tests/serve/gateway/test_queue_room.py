"""A limit on open cases: what is held as long as there is room, and what is said when there is none."""

import asyncio
import json
import logging
import threading

import pytest

from demur.review import queue
from demur.review.load import OPEN_CASES, open_cases
from demur.serve.config.file import ModelConfig
from demur.serve.config.review import ReviewConfig
from demur.serve.contract import wire
from demur.serve.gateway.queue_room import QueueRoom
from demur.serve.web.native.app import gateway_app
from demur.traffic import log
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.draw import Draws, limit
from tests.conftest import entry, new_case
from tests.serve.conftest import DRAW_KEY, make_handler
from tests.serve.web.openai.test_chat import MODEL, ScriptedHost, ask, configured, listening, openai


class Broken:
    """A host that fails on every input."""

    def __init__(self, host):
        self.state = host.state

    async def decide(self, inputs, groups, draws):
        raise RuntimeError("a bug in the model")


@pytest.fixture
def limited(quickstart, local_host, database):
    """Makes handlers over one database, with a limit."""

    def make(most, host=local_host, **model):
        digits = quickstart.models["digits"]
        digits = ModelConfig.model_validate({**digits.model_dump(), **model})
        update = {"review": ReviewConfig(most_waiting=most), "models": {"digits": digits}}
        return make_handler(quickstart.model_copy(update=update), {"digits": host}, database)

    return make


def predict(handler, value, times=1, key=None):
    items = [{"model": "digits", "input": value}] * times
    done = asyncio.run(handler.predict_batch(json.dumps({"items": items}).encode(), key))
    return [one.record for one in done]


def actions(records):
    return [record.action for record in records]


def open_now(database):
    with database.transaction() as connection:
        return open_cases(connection, at_most=100_000)


def waiting(database, n):
    entries = [entry() for _ in range(n)]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
    return entries


def test_when_the_queue_is_full_nobody_is_asked_and_nothing_is_answered(limited, database, clear_digit, doubtful_digit):
    handler = limited(3, spot_check=0.25)
    held = predict(handler, doubtful_digit, 3)
    assert actions(held) == ["review"] * 3
    (refused,) = predict(handler, doubtful_digit)
    assert refused.action == "abstain"
    assert refused.reason == (
        "the review queue is full: 3 cases wait, at most 3 may (review.most_waiting); " + held[0].reason
    )
    assert refused.label_probability == 0.25
    told = wire.prediction_json(refused)
    assert (told["action"], told["abstained"], told["review"]) == ("abstain", True, None)
    assert predict(handler, clear_digit)[0].action == "answer"  # what is sure is answered as ever


def test_spot_checks_go_on_and_say_with_which_probability(limited, database, clear_digit, doubtful_digit):
    handler = limited(1, spot_check={"rate": 0.4, "groups": {"east": 0.6}})
    predict(handler, doubtful_digit)
    done = predict(handler, doubtful_digit, 60) + predict(handler, clear_digit, 60)
    assert actions(done) == ["abstain"] * 60 + ["answer"] * 60
    assert {one.label_probability for one in done} == {0.4}
    draws = Draws(DRAW_KEY, "spot-check")
    with database.transaction() as connection:
        found = connection.execute("select record_id from review_items where kind = 'spot_check'").fetchall()
    assert {row[0] for row in found} == {one.id for one in done if draws.of(str(one.id)) < limit(0.4)}
    assert 20 < len(found) < 80


def test_a_model_that_fails_is_treated_alike(limited, local_host, doubtful_digit):
    handler = limited(2, host=Broken(local_host))
    done = predict(handler, doubtful_digit, 3)
    assert actions(done) == ["review", "review", "abstain"]
    assert done[2].reason.endswith("; the model failed on this input, and what is unknown is held")


def test_a_retry_gets_what_was_said_first(limited, database, doubtful_digit):
    handler = limited(1)
    predict(handler, doubtful_digit)
    (first,) = predict(handler, doubtful_digit, key="k")
    with database.transaction() as connection:
        queue.withdraw(connection, connection.execute("select id from review_items").fetchone()[0], "ada", why="done")
    handler.polls["counting"].look()
    (again,) = predict(handler, doubtful_digit, key="k")
    assert again.id == first.id
    assert actions([first, again]) == ["abstain"] * 2
    assert actions(predict(handler, doubtful_digit, key="another")) == ["review"]


@pytest.mark.parametrize("most", [1, 7, 40])
def test_one_gateway_alone_never_goes_beyond_it(limited, database, doubtful_digit, most):
    handler = limited(most)
    handler.polls["counting"].look()
    stop = threading.Event()

    def count():  # at any moment of a write, far more often than once a second
        while not stop.is_set():
            handler.polls["counting"].look()

    counting = threading.Thread(target=count)
    counting.start()
    try:
        for _ in range(4):
            predict(handler, doubtful_digit, 30)
            assert open_now(database) <= most
    finally:
        stop.set()
        counting.join()
    handler.polls["counting"].look()
    predict(handler, doubtful_digit, 50)
    assert open_now(database) == most  # and leaves no room unused


def test_several_gateways_go_beyond_it_by_what_the_others_hold_between_two_counts(limited, database, doubtful_digit):
    most, a_round, gateways = 25, 10, 3
    handlers = [limited(most) for _ in range(gateways)]
    for turn in range(6):
        for handler in handlers:
            handler.polls["counting"].look()
        for handler in handlers:
            predict(handler, doubtful_digit, a_round)
        assert open_now(database) <= most + (gateways - 1) * a_round
        if turn == 3:
            with database.transaction() as connection:
                ids = connection.execute("select id from review_items where ended_at is null limit 15").fetchall()
                for (case_id,) in ids:
                    queue.withdraw(connection, case_id, "ada", why="room is needed")
    assert open_now(database) >= most
    for handler in handlers:
        handler.polls["counting"].look()
        assert actions(predict(handler, doubtful_digit)) == ["abstain"]


def test_every_case_that_has_not_ended_counts(limited, database, doubtful_digit):
    claimed, withdrawn, *_ = waiting(database, 4)
    with database.transaction() as connection:
        queue.claim(connection, claimed.record.id, "ada", lease_seconds=60)
        queue.withdraw(connection, withdrawn.record.id, "ada", why="no need")
        assert open_cases(connection, at_most=10) == 3
        assert open_cases(connection, at_most=2) == 2
    handler = limited(4)
    handler.polls["counting"].look()
    assert actions(predict(handler, doubtful_digit, 2)) == ["review", "abstain"]


def test_what_is_not_written_takes_no_place(limited, database, doubtful_digit):
    handler = limited(2)

    async def many():
        body = json.dumps({"model": "digits", "input": doubtful_digit}).encode()
        return await asyncio.gather(*(handler.predict(body, "k") for _ in range(2)))

    done = asyncio.run(many())
    assert sum(one.replayed for one in done) == 1
    assert handler._finisher.room.open == 1
    assert actions(predict(handler, doubtful_digit, 2)) == ["review", "abstain"]


def test_without_counts_it_can_only_be_too_careful(database, dsn, caplog):
    now = [0.0]
    room = QueueRoom(5, clock=lambda: now[0])

    class Away:
        def transaction(self):
            raise DatabaseUnavailable("PostgreSQL does not answer")

    with pytest.raises(DatabaseUnavailable):
        room.count(Away())
    waiting(database, 3)
    room.count(database)
    for _ in range(2):
        with room.places() as places:
            room.take(places)
    assert (room.open, room.full) == (5, True)
    with caplog.at_level(logging.WARNING, logger="demur.queue"):
        for now[0] in (1, 9, 11, 12, 3600):
            room.count(Away())
            assert (room.open, room.full) == (5, True)
        assert [r.levelname for r in caplog.records] == ["ERROR"]
        assert "could not be counted for 11 s, and those of before stand" in caplog.text
        room.count(database)  # the two were lost on the way, as it turns out
        assert (room.open, room.full, room.why_none) == (3, False, "")
        caplog.clear()
        waiting(database, 2)
        room.count(database)
        room.count(database)
    assert [r.message for r in caplog.records] == [
        "the review queue is full: 5 cases wait, at most 5 may (review.most_waiting); what would be held is given as"
        " `abstain`"
    ]


def test_a_failure_on_the_way_frees_no_place_before_the_next_count(database):
    room = QueueRoom(2)
    room.count(database)

    def write():
        with room.places() as places:
            room.take(places)
            raise DatabaseUnavailable("the commit was lost, perhaps on its way back")

    with pytest.raises(DatabaseUnavailable):
        write()
    assert room.open == 1
    room.count(database)
    assert room.open == 0


def test_health_says_so(limited, database, doubtful_digit):
    handler = limited(2)
    assert asyncio.run(handler.inquiries.health())["review"] == {"open": 0, "most_waiting": 2, "full": False}
    predict(handler, doubtful_digit, 3)
    health = asyncio.run(handler.inquiries.health())
    assert health["review"] == {"open": 2, "most_waiting": 2, "full": True}
    assert health["status"] == "ok"
    assert asyncio.run(limited(None).inquiries.health())["review"] == {"open": 2, "most_waiting": None, "full": False}


@pytest.mark.parametrize("stream", ["hold", "tentative"])
def test_a_chat_abstains(database, stream):
    config = configured(talker={"chat": {**MODEL["chat"], "stream": stream}})
    config = config.model_copy(update={"review": ReviewConfig(most_waiting=1)})
    handler = make_handler(config, {"talker": ScriptedHost()}, database)
    with (
        listening(gateway_app(handler, max_body_bytes=100_000)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
    ):
        first, second = (ask(client, "doubt it").choices[0].message for _ in range(2))
        assert (first.content, second.content) == (MODEL["chat"]["refusal"], MODEL["chat"]["abstention"])
        *_, last = ask(client, "doubt it", stream=True)
        assert last.demur["action"] == "abstain"
        assert last.demur["reason"].startswith("the review queue is full: 1 cases wait")
    assert open_now(database) == 1


def test_the_count_reads_indexes_alone(database):
    with database.transaction() as connection:
        connection.execute(
            "insert into records (id, created_at, model, top_labels, top_probabilities, prediction_set, scores, action,"
            " reason, label_probability, timings) select gen_random_uuid(), now(), 'toy', '{}', '{}', '{}', '{}',"
            " 'review', '', 1, '{}' from generate_series(1, 3000)"
        )
        connection.execute(
            "insert into review_items (id, record_id, model, status, created_at)"
            " select id, id, model, 'waiting', created_at from records"
        )
        connection.execute("analyze review_items")
        connection.execute("set local enable_seqscan = off")
        plan = connection.execute(f"explain {OPEN_CASES}", {"most": 100}).fetchall()
    said = "\n".join(row[0] for row in plan)
    assert "Seq Scan" not in said
    assert said.count("Index Only Scan") + said.count("Index Scan") == 2
