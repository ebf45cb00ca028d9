"""What callers ask of a review, at every door, on its way to the queue."""

import asyncio
import json
from datetime import timedelta

import pytest

from demur.review import cases
from demur.serve.config.review import ReviewConfig
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.native.app import gateway_app
from demur.traffic.log import KeyReused
from tests.serve.conftest import make_handler
from tests.serve.web.openai.test_chat import MODEL, ScriptedHost, ask, configured, listening, openai

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


@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        ({"priority": 10}, "review.priority: write at most 9"),
        ({"priority": -1}, "review.priority: write at least 0"),
        ({"priority": 1.5}, "review.priority: a whole number is wanted here"),
        ({"due_seconds": 0}, "review.due_seconds: write more than 0"),
        ({"due_seconds": 1e18}, "review.due_seconds: write at most 315,360,000"),
        ({"due_seconds": "soon"}, "review.due_seconds: a number is wanted here"),
        ({"due": 5}, "review.due: this key is not known"),
        ("soon", "review: an object of keys and values is wanted here"),
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
