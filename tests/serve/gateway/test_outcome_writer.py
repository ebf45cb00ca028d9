"""Outcomes, one by one and many at a time: each is written or refused by itself, and once for a key."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from uuid_utils.compat import uuid7

from demur.serve.access.caller import Caller, Via
from demur.serve.access.refusals import NotAllowed
from demur.serve.config.access import Scope
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.gateway.database_calls import DatabaseThreads
from demur.serve.gateway.outcome_writer import OutcomeWriter
from demur.traffic import log, outcome_log
from demur.traffic.log import KeyReused, RecordNotFound
from tests.conftest import entry

FOR_OTHERS = Caller(name="shop", scopes=frozenset({Scope.PREDICT}), via=Via.KEY, models=frozenset({"other"}))


@pytest.fixture
def ids(database):
    """Predictions of a model that is served, and one of a model that no longer is."""
    entries = [*(entry(model="digits") for _ in range(3)), entry(model="gone")]
    with database.transaction() as connection:
        log.append(connection, entries)
    return [str(one.record.id) for one in entries]


@pytest.fixture
def writer(quickstart, database):
    return writer_of(quickstart, database)


def writer_of(config, database):
    return OutcomeWriter(config, DatabaseThreads(database, threads=2, name="outcomes"))


def tell(writer, items, key=None, caller=None):
    return asyncio.run(writer.add_many(json.dumps({"items": items}).encode(), key, caller))


def labels(database, record_id):
    with database.transaction() as connection:
        return [told.label for told in log.outcomes_of(connection, record_id)]


def test_each_is_written_or_refused_by_itself(writer, database, ids):
    items = [
        {"id": ids[0], "label": "3", "source": "lab", "author": "ada"},
        {"id": ids[1], "label": "eleven"},
        {"id": str(uuid7()), "label": "3"},
        {"id": "7", "label": "3"},
        {"label": "3"},
        "no object",
        {"id": ids[1], "label": "3", "source": "Review"},
        {"id": ids[1], "label": ["3"]},
        {"id": ids[1], "label": "3", "colour": 1},
        {"id": ids[3], "label": "anything"},
        {"id": ids[0], "label": "4"},
    ]
    results = tell(writer, items)
    written = {at for at, result in enumerate(results) if not isinstance(result, Exception)}
    assert written == {0, 9, 10}
    assert not any(results[at].replayed for at in written)
    assert (results[0].outcome.label, results[0].outcome.source, results[0].outcome.author) == ("3", "lab", "ada")
    assert results[9].outcome.source == "api"
    assert isinstance(results[2], RecordNotFound)
    kinds = {type(results[at]) for at in set(range(len(items))) - written - {2}}
    assert kinds == {InvalidRequest}
    assert str(results[3]).startswith("id: an id such as 01939f2e")
    assert str(results[4]) == "id: this key is missing"
    assert "'eleven' is not a label of 'digits'" in str(results[1])
    assert labels(database, ids[0]) == ["3", "4"]  # the later one counts
    assert labels(database, ids[1]) == []
    assert labels(database, ids[3]) == ["anything"]


def test_a_key_for_other_models_writes_nothing(writer, database, ids):
    results = tell(writer, [{"id": ids[0], "label": "3"}, {"id": str(uuid7()), "label": "3"}], caller=FOR_OTHERS)
    assert list(map(type, results)) == [NotAllowed, RecordNotFound]
    assert labels(database, ids[0]) == []


def test_a_repeated_key_writes_nothing_again(writer, database, ids):
    items = [{"id": ids[0], "label": "3"}, {"id": ids[1], "label": "eleven"}, {"id": ids[0], "label": "4"}]
    first = tell(writer, items, "a-key")
    again = tell(writer, items, "a-key")
    assert [result.replayed for result in (again[0], again[2])] == [True, True]
    assert [again[0].outcome, again[2].outcome] == [first[0].outcome, first[2].outcome]
    assert isinstance(again[1], InvalidRequest)
    assert labels(database, ids[0]) == ["3", "4"]
    with pytest.raises(KeyReused):
        tell(writer, items[:1], "a-key")
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        tell(writer, items, "a key")
    tell(writer, items, "another-key")
    assert labels(database, ids[0]) == ["3", "4", "3", "4"]


def test_what_was_refused_may_be_sent_again_under_its_key(writer, database, ids):
    record = entry(model="digits")
    items = [{"id": ids[0], "label": "3"}, {"id": str(record.record.id), "label": "4"}]
    assert isinstance(tell(writer, items, "a-key")[1], RecordNotFound)
    with database.transaction() as connection:
        log.append(connection, [record])
    assert [result.replayed for result in tell(writer, items, "a-key")] == [True, False]
    assert labels(database, record.record.id) == ["4"]


def test_a_key_holds_after_the_input_is_forgotten(writer, database, ids):
    items = [{"id": ids[0], "label": "3"}, {"id": ids[1], "label": "4"}]
    tell(writer, items, "a-key")
    with database.transaction() as connection:
        connection.execute(log.FORGET_KEYS.format(ids="%s"), (ids[0],))
    assert [result.replayed for result in tell(writer, items, "a-key")] == [True, True]
    assert labels(database, ids[0]) == ["3"]


def test_two_at_once_write_once(quickstart, database, ids):
    items = [{"id": one, "label": "3"} for one in ids]
    with ThreadPoolExecutor(8) as pool:
        all_results = list(pool.map(lambda _: tell(writer_of(quickstart, database), items, "a-key"), range(8)))
    assert sum(not result.replayed for results in all_results for result in results) == len(ids)
    assert all(labels(database, one) == ["3"] for one in ids)


def test_two_at_once_with_different_bodies_under_one_key(quickstart, database, ids):
    """Whoever comes second is refused, and never answered with what the first wrote."""

    def one(label):
        try:
            return tell(writer_of(quickstart, database), [{"id": ids[0], "label": label}], "a-key")
        except KeyReused as error:
            return error

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(one, "123456"))
    assert sum(isinstance(result, KeyReused) for result in results) == 5
    assert len(labels(database, ids[0])) == 1


def test_a_label_that_the_task_no_longer_has_is_still_replayed(writer, database, ids):
    outcome = outcome_log.NewOutcome(record_id=ids[0], label="3", source="api", author=None)
    with database.transaction() as connection:
        outcome_log.append(connection, [outcome])
    tell(writer, [{"id": ids[0], "label": "4"}], "a-key")
    with database.transaction() as connection:  # as if its label had been completed otherwise when it was written
        connection.execute("update outcomes set label = '\"5\"' where label::text = '\"4\"'")
    (again,) = tell(writer, [{"id": ids[0], "label": "4"}], "a-key")
    assert again.replayed


def test_one_alone_takes_a_key_as_well(client, database, ids):
    path, body = f"/v1/predictions/{ids[0]}/outcome", {"label": "3", "source": "lab"}
    first = client.post(path, json=body, headers={"Idempotency-Key": "k"})
    again = client.post(path, json=body, headers={"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert ("idempotent-replay" in first.headers, again.headers["idempotent-replay"]) == (False, "true")
    other = client.post(path, json={"label": "4"}, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["error"]["kind"]) == (409, "KeyReused")
    assert labels(database, ids[0]) == ["3"]


def test_over_http(client, ids):
    items = [{"id": ids[0], "label": "3"}, {"id": ids[1], "label": "eleven"}]
    results = client.post("/v1/outcomes/batch", json={"items": items}).json()["results"]
    assert [result["status"] for result in results] == [201, 422]
    assert results[0]["outcome"]["label"] == "3"
    assert results[1]["error"]["kind"] == "InvalidRequest"
    assert client.get(f"/v1/predictions/{ids[0]}").json()["outcome"]["label"] == "3"


def test_whoever_waits_is_told(client, ids):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, f"/v1/predictions/{ids[0]}", params={"wait": 60})
        while not waiting.done():
            client.post("/v1/outcomes/batch", json={"items": [{"id": ids[0], "label": "3"}]})
        assert waiting.result().json()["outcome"]["label"] == "3"
        assert waiting.result().elapsed.total_seconds() < 55
