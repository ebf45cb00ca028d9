"""demur's own client on the real gateway, over a real connection, with a real model and database."""

import asyncio
import threading

import numpy as np
import pytest
from uuid_utils.compat import uuid7

from demur import AsyncClient, Client, Item
from demur.client.errors import InvalidRequest, KeyReused, NotAllowed, NotFound, NotKnown, StillWaiting, TooOften
from demur.serve.access.keys import Rates
from demur.serve.access.needs import GATEWAY
from demur.serve.access.rates import Rate
from demur.serve.config.access import Scope
from demur.serve.web.login.access_middleware import AccessMiddleware
from demur.serve.web.native.app import gateway_app
from demur.serve.web.native.fast_path import FastPath
from tests.conftest import digit_rows, resolve
from tests.serve.access.doors import keeper_of, make
from tests.serve.listening import listening


@pytest.fixture
def app(handler, quickstart):
    most = quickstart.limits.body_bytes
    return FastPath(handler, max_body_bytes=most).before(gateway_app(handler, max_body_bytes=most))


@pytest.fixture
def url(app):
    with listening(app) as address:
        yield address


@pytest.fixture
def asking(url):
    with Client(url, concurrency=2) as client:
        yield client


@pytest.fixture(scope="module")
def inputs(digits):
    return [row["input"] for row in digit_rows(digits)[:60]]


def count(database, table="records"):
    with database.transaction() as connection:
        return connection.execute(f"select count(*) from {table}").fetchone()[0]


def test_one_prediction_and_its_outcome(asking, database, clear_digit):
    done = asking.predict("digits", np.array(clear_digit), group="g", idempotency_key="k")
    assert done.answered
    assert done.label == done.prediction
    assert asking.predict("digits", clear_digit, group="g", idempotency_key="k").replayed
    assert count(database) == 1
    told = asking.add_outcome(done, "3", "lab", "ada", idempotency_key="o")
    assert asking.add_outcome(done.id, "3", "lab", "ada", idempotency_key="o").replayed
    assert asking.prediction(done).outcome.at == told.at
    assert asking.prediction(done).group == "g"
    with pytest.raises(KeyReused):
        asking.predict("digits", clear_digit, idempotency_key="k")
    with pytest.raises(InvalidRequest, match="the shape is 1 x 1; this model takes 8 x 8"):
        asking.predict("digits", [[1.0]])
    with pytest.raises(NotFound, match="there is no model 'nobody'; there are: digits"):
        asking.predict("nobody", clear_digit)
    with pytest.raises(NotFound):
        asking.prediction(uuid7())
    assert asking.erase(done).id == done.id
    assert asking.prediction(done).erased_at is not None


def test_many_in_order_once_each(asking, database, inputs):
    first = asking.predict_many("digits", inputs, batch_size=8, idempotency_key="run")
    again = asking.predict_many("digits", np.array(inputs), batch_size=8, idempotency_key="run")
    assert [one.id for one in again] == [one.id for one in first]
    assert all(one.replayed for one in again)
    assert count(database) == len(inputs)
    alone = asking.predict("digits", inputs[17])
    assert (alone.prediction, round(alone.confidence, 6)) == (first[17].prediction, round(first[17].confidence, 6))


def test_a_refused_input_stands_in_its_place(asking, clear_digit):
    done = asking.predict_many("digits", [clear_digit, [[1.0]], Item(input=clear_digit, group="g")], on_error="return")
    assert (done[0].answered, done[2].group) == (True, "g")
    assert isinstance(done[1], InvalidRequest)
    assert str(done[1]).startswith("input 1: input: the shape is 1 x 1")


def test_more_than_the_service_takes_at_once(quickstart, local_host, database, inputs):
    from tests.serve.conftest import make_handler

    limits = quickstart.limits.model_copy(update={"batch": 7, "body_bytes": 5000})
    handler = make_handler(quickstart.model_copy(update={"limits": limits}), {"digits": local_host}, database)
    app = FastPath(handler, max_body_bytes=5000).before(gateway_app(handler, max_body_bytes=5000))
    with listening(app) as address, Client(address) as client:
        done = client.predict_many("digits", inputs, batch_size=40)
    assert len({one.id for one in done}) == len(inputs) == count(database)


def test_outcomes_of_many(asking, database, inputs):
    done = asking.predict_many("digits", inputs)
    told = [{"id": one.id, "label": "3", "source": "lab"} for one in done]
    told[5]["label"] = "eleven"
    results = asking.add_outcomes(told, on_error="return", batch_size=25, idempotency_key="o")
    assert [at for at, one in enumerate(results) if isinstance(one, InvalidRequest)] == [5]
    again = asking.add_outcomes(told, on_error="return", batch_size=25, idempotency_key="o")
    assert sum(getattr(one, "replayed", False) for one in again) == len(inputs) - 1 == count(database, "outcomes")


def test_waiting_for_a_person(asking, database, doubtful_digit):
    held = asking.predict("digits", doubtful_digit)
    assert held.label is None
    with pytest.raises(StillWaiting):
        asking.wait(held, timeout=0.2)

    def answer():
        with database.transaction() as connection:
            resolve(connection, held.id, "ada", "3")

    person = threading.Timer(0.5, answer)
    person.start()
    view = asking.wait(held, timeout=20)
    person.join()
    assert (view.outcome.label, view.outcome.source, view.outcome.author) == ("3", "review", "ada")
    assert view.review.ended


def test_health_and_models(asking):
    assert asking.health().ok
    assert asking.health().models["digits"].artifact
    assert asking.models() == ["digits"]


def test_with_await(url, database, inputs):
    async def work():
        async with AsyncClient(url) as client:

            async def slowly():
                for one in inputs:
                    yield one

            done = [one async for one in client.predict_iter("digits", slowly(), batch_size=16)]
            at_once = await asyncio.gather(*(client.predict("digits", one) for one in inputs[:10]))
            await client.add_outcomes([{"id": one.id, "label": "3"} for one in at_once])
            return done, at_once, await client.wait(at_once[0], timeout=5)

    done, at_once, view = asyncio.run(work())
    assert [one.prediction for one in at_once] == [one.prediction for one in done[:10]]
    assert count(database) == len(inputs) + 10
    assert view.outcome.label == "3"


def test_behind_a_door(app, database, clear_digit):
    guarded = AccessMiddleware(app, keeper_of(database), GATEWAY, cookie=None)
    rates = Rates(predictions=Rate(per_second=2, burst=5))
    with listening(guarded) as address:
        with Client(address) as stranger:
            assert stranger.health().models == {}
            with pytest.raises(NotKnown, match="send a key"):
                stranger.predict("digits", clear_digit)
        with Client(address, make(database, Scope.REVIEW)) as reviewer, pytest.raises(NotAllowed, match="scope"):
            reviewer.predict("digits", clear_digit)
        with Client(address, make(database, Scope.PREDICT, rates=rates)) as client:
            done = client.predict_many("digits", [clear_digit] * 9, batch_size=3)  # which takes some seconds
            assert len({one.id for one in done}) == 9 == count(database)
            client.predict_many("digits", [clear_digit] * 4, batch_size=4)
            with pytest.raises(TooOften) as refused:
                client.predict_many("digits", [clear_digit] * 5, batch_size=5, timeout=0.3)
            assert refused.value.retry_after > 0
