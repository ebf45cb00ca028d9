"""What callers ask of a review, at every door, on its way to the queue."""

import asyncio
import json
from datetime import timedelta
from hashlib import sha256

import pytest

from review import cases
from serve.config.review import ReviewConfig
from serve.gateway.http import gateway_app
from serve.inputs import InvalidRequest
from tests.serve.chat.test_chat import MODEL, ScriptedHost, ask, configured, listening, openai
from tests.serve.conftest import make_handler
from traffic import log
from traffic.log import KeyReused

WISHES = {"priority": 7, "due_seconds": 90}


@pytest.fixture
def ruled(quickstart, local_host, database):
    """A handler with a rule of its own."""
    rules = [{"when": {"groups": ["east"]}, "due_minutes": 1, "opinions": 2}]
    review = ReviewConfig.model_validate({"rules": rules})
    return make_handler(quickstart.model_copy(update={"review": review}), {"digits": local_host}, database)


def case_of(database, record):
    with database.transaction() as connection:
        return cases.case(connection, record.id)


def asked(value, **more):
    return {"model": "digits", "input": value, **more}


def test_a_case_has_what_the_caller_and_the_rules_want(ruled, database, doubtful_digit):
    body = json.dumps({"items": [asked(doubtful_digit, review=WISHES, group=group) for group in ("west", "east")]})
    west, east = asyncio.run(ruled.predict_batch(body.encode(), None))
    case = case_of(database, west.record)
    assert (case.priority, case.opinions_wanted) == (7, 1)
    assert case.due_at == case.created_at + timedelta(seconds=90)
    case = case_of(database, east.record)
    assert (case.priority, case.opinions_wanted) == (7, 2)
    assert case.due_at == case.created_at + timedelta(seconds=60)


def test_a_retry_keeps_the_case_of_the_first_try(ruled, database, doubtful_digit):
    def predict(**more):
        return asyncio.run(ruled.predict(json.dumps(asked(doubtful_digit, **more)).encode(), "k"))

    first = predict(review=WISHES)
    case = case_of(database, first.record)
    assert predict(review=WISHES).replayed
    assert case_of(database, first.record) == case
    with pytest.raises(KeyReused):
        predict(review={"priority": 1})


def test_a_key_from_before_there_were_wishes_still_holds(ruled, database, doubtful_digit):
    plain = {"model": "digits", "input": doubtful_digit, "group": None}
    asyncio.run(ruled.predict(json.dumps(plain).encode(), "k"))
    before = sha256(json.dumps(["predict", plain], sort_keys=True).encode()).digest()
    with database.transaction() as connection:
        found = log.find_by_key(connection, "k", before)
    assert list(found) == [0]


@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        ({"priority": 10}, "review.priority: input should be less than or equal to 9"),
        ({"priority": -1}, "review.priority: input should be greater than or equal to 0"),
        ({"priority": 1.5}, "review.priority: input should be a valid integer"),
        ({"due_seconds": 0}, "review.due_seconds: input should be greater than 0"),
        ({"due_seconds": 1e18}, "review.due_seconds: input should be less than or equal to"),
        ({"due_seconds": "soon"}, "review.due_seconds: input should be a valid number"),
        ({"due": 5}, "review.due: this key is not known"),
        ("soon", "review: input should be an object"),
    ],
)
def test_wishes_that_cannot_be_are_refused(ruled, wishes, why, clear_digit):
    with pytest.raises(InvalidRequest) as caught:
        asyncio.run(ruled.predict(json.dumps(asked(clear_digit, review=wishes)).encode(), None))
    assert why in str(caught.value)


@pytest.mark.parametrize("stream", ["hold", "tentative"])
def test_a_chat_takes_them_too(database, stream):
    config = configured(talker={"chat": {**MODEL["chat"], "stream": stream}})
    handler = make_handler(config, {"talker": ScriptedHost()}, database)
    with (
        listening(gateway_app(handler, max_body_bytes=100_000)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
    ):
        for event in ask(
            client, "doubt it", stream=True, extra_body={"review": WISHES, "group": "east", "cluster": "ada"}
        ):
            assert event.object == "chat.completion.chunk"
        with pytest.raises(openai.BadRequestError, match=r"review\.priority"):
            ask(client, "doubt it", extra_body={"review": {"priority": 10}})
    with database.transaction() as connection:
        found = connection.execute('select priority, due_at - created_at, "group" from review_items').fetchall()
        assert connection.execute("select cluster from records").fetchall() == [("ada",)]
    assert found == [(7, timedelta(seconds=90), "east")]
