"""The stages of a group of requests: each hands on one shape of a row, and none takes its neighbours with it."""

import asyncio

import pytest

from demur.serve.contract.commit import CommitResult
from demur.serve.contract.hosts import UnknownModel
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.rows import ModelRow, PendingRow, RowOutcome
from demur.serve.contract.wire import PredictRequest
from demur.serve.gateway.pipeline import RequestGroup
from tests.serve.conftest import make_handler


@pytest.fixture
def requests(clear_digit, doubtful_digit):
    return [
        PredictRequest(model="digits", input=clear_digit),
        PredictRequest(model="nobody", input=clear_digit),
        PredictRequest(model="digits", input="no picture"),
        PredictRequest(model="digits", input=doubtful_digit),
    ]


def run(handler, requests, **how):
    return asyncio.run(handler.pipeline.run(RequestGroup(requests=requests, uses=[None] * len(requests), **how)))


def count(database):
    with database.transaction() as connection:
        return connection.execute("select count(*) from records").fetchone()[0]


def test_each_request_has_its_own_outcome_in_its_own_place(handler, database, requests):
    clear, unknown, misread, doubtful = run(handler, requests)
    assert (clear.record.action, doubtful.record.action) == ("answer", "review")
    assert [type(unknown), type(misread)] == [UnknownModel, InvalidRequest]
    assert count(database) == 2


def test_together_one_that_does_not_fit_is_raised_before_anything_is_decided(handler, database, requests):
    with pytest.raises(InvalidRequest, match=r"^row 1: "):
        run(handler, [requests[0], requests[2]], together=True)
    assert count(database) == 0


def test_each_stage_hands_on_its_own_shape(handler, requests, monkeypatch):
    seen = []
    client = handler.model("digits")
    decide = client.decide

    async def watched(rows):
        seen.extend(rows)
        outcomes = await decide(rows)
        seen.extend(outcomes)
        return outcomes

    monkeypatch.setattr(client, "decide", watched)
    (done,) = run(handler, requests[:1])
    pending, outcome = seen
    assert isinstance(pending, PendingRow)
    assert isinstance(outcome, RowOutcome)
    assert isinstance(outcome.row, ModelRow)
    assert isinstance(done, CommitResult)
    assert outcome.done is done
    assert done.record.id == pending.id


def test_what_a_batch_leaves_open_is_written_by_the_request_itself(quickstart, local_host, database, requests):
    class Traced:
        def batch(self, model, rows):
            from contextlib import nullcontext

            return nullcontext()

        def close(self):
            """Nothing is open."""

    handler = make_handler(quickstart, {"digits": local_host}, database)
    handler.telemetry.traces = Traced()
    (done,) = run(handler, requests[:1])
    assert done.record.action == "answer"
    assert count(database) == 1
